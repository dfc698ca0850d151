/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Methods that GPU processes call: to register themselves and their queues, and for their wishes
 */

#include <fcntl.h>
#include <inttypes.h>

#include "client-dbus.h"
#include "manager-dbus.h"
#include "paths.h"
#include "register-dbus.h"
#include "service/base/log.h"
#include "service/base/messages.h"
#include "service/core/crowd.h"
#include "service/core/job.h"
#include "service/core/ladder.h"
#include "service/core/numbers.h"
#include "service/core/resolve.h"
#include "service/core/turn.h"
#include "service/core/user.h"
#include "service/settings/xsched-conf.h"
#include "service/state/client-state.h"
#include "spread.h"

static void log_refused(Manager *m, const Peer *p, int r, const char *what) {
        if (user_may_log(m, p->uid))
                log_event(LOG_NOTICE, r == -EDQUOT ? MESSAGE_QUOTA : MESSAGE_CLIENT_REFUSED,
                                LOG_FIELDS(.pid = p->pid, .error = r), "Refused a %s of %s (pid %d, uid %u): %m", what,
                                p->command, (int) p->pid, (unsigned) p->uid);
}

/* --- RegisterClient --- */

typedef struct RegisterArguments {
        const char *shim_version, *backend, *job;
        Settings wish;
        UserUnits units;
} RegisterArguments;

static void register_arguments_done(RegisterArguments *a) {
        user_units_done(&a->units);
}

static int wrong_type(const char *key, const char *type, const char *signature, sd_bus_error *error) {
        return sd_bus_error_setf(
                        error, SD_BUS_ERROR_INVALID_ARGS, "%s must be of type '%s', not '%s'", key, type, signature);
}

/* A named argument, and the field that it goes to. Its signature is the field's type: "s" a const char *, "u" a
 * uint32_t. */
typedef struct Argument {
        const char *key;
        const char *signature;
        size_t offset;
} Argument;

/* Takes an argument of the table, which a NULL key ends. Returns 0 when the table does not have it. */
static int take_argument(sd_bus_message *message, const Argument *table, const char *key, const char *signature,
                void *fields, sd_bus_error *error) {
        const Argument *a = table;

        while (a->key && !streq(a->key, key))
                a++;
        if (!a->key)
                return 0;
        if (!streq(signature, a->signature))
                return wrong_type(key, a->signature, signature, error);

        void *field = (char *) fields + a->offset;
        int r = sd_bus_message_read(message, a->signature, field);
        if (r >= 0 && *a->signature == SD_BUS_TYPE_STRING)
                r = bus_check_string(key, *(const char **) field, error);
        return r < 0 ? r : 1;
}

static const Argument client_arguments[] = {
                {"ShimVersion", "s", offsetof(RegisterArguments, shim_version)},
                {"Backend", "s", offsetof(RegisterArguments, backend)},
                {"Job", "s", offsetof(RegisterArguments, job)},
                {},
};

/* Reads the settings of units, unit by unit; skips those beyond the limit unread. */
static int take_units(sd_bus_message *message, const char *signature, UserUnits *units, sd_bus_error *error) {
        const char *unit, *assignment;

        if (!streq(signature, "a(ss)"))
                return wrong_type("UserUnits", "a(ss)", signature, error);
        int r = sd_bus_message_enter_container(message, 'a', "(ss)");
        for (unsigned n = 0; r >= 0; n++) {
                r = sd_bus_message_read(message, "(ss)", &unit, &assignment);
                if (r <= 0)
                        break;
                r = n < USER_UNITS_ASSIGNMENTS_MAX ? user_units_add(units, unit, assignment) : 0;
        }
        return r < 0 ? r : sd_bus_message_exit_container(message);
}

/* A newer shim may have more to say: unknown properties are skipped. */
static int take_client_property(
                sd_bus_message *message, const char *key, const char *signature, void *userdata, sd_bus_error *error) {
        RegisterArguments *a = userdata;

        int r = take_argument(message, client_arguments, key, signature, a, error);
        if (r != 0)
                return r;
        if (settings_key_from_string(key) >= 0)
                return bus_take_setting(message, key, signature, &a->wish, error);
        if (streq(key, "UserUnits"))
                return take_units(message, signature, &a->units, error);
        return sd_bus_message_skip(message, signature);
}

static int reply_client(sd_bus_message *message, const Client *c, const ClientFds *f) {
        _cleanup_free_ char *path = client_path(c);

        return sd_bus_reply_method_return(message, "ohhh", path, f->page, f->lifeline, f->wake);
}

int check_register_client(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error) {
        const AuthRequest request = {.action = AUTH_REGISTER};
        Manager *m = userdata;
        return auth_check(m->auth, message, &request, error);
}

BUS_MANAGER_CHANGE(method_register_client) {
        _cleanup_(peer_done)
        Peer peer = PEER_NULL;
        _cleanup_(register_arguments_done)
        RegisterArguments a = {0};

        int r = bus_read_flags(message, error);
        if (r < 0)
                return r;
        r = bus_read_properties(message, take_client_property, &a, error);
        if (r < 0)
                return r;
        r = peer_from_sender(m->connections, message, &peer);
        if (r < 0)
                return bus_peer_error(r, error);
        turn_look(m);

        if (crowd_is_in_debt(m, user_of(m, peer.uid))) {
                log_refused(m, &peer, -EDQUOT, "client");
                return sd_bus_error_setf(error, BUS_ERROR("QuotaExceeded"),
                                "Clients of user %u have made it slow to be told anything: "
                                "the user's CPU time for that is used up for now",
                                (unsigned) user_of(m, peer.uid));
        }

        ClientParameters p = {
                        .sender = connections_sender(m->connections, message),
                        .shim_version = a.shim_version,
                        .backend = a.backend,
                        .wish = a.wish,
                        .units = &a.units,
        };
        if (!isempty(a.job)) {
                p.job = job_find(m, a.job, peer.uid);
                if (!p.job)
                        return sd_bus_error_set(
                                        error, BUS_ERROR("NoSuchJob"), "The job has ended, or is another user's");
                if (!job_takes(p.job, &peer)) {
                        job_become_wish(p.job, &p.wish);
                        p.job = NULL;
                }
        }

        Client *c;
        ClientFds f;
        r = client_new(m, &peer, &p, &c, &f);
        if (r < 0) {
                log_refused(m, &peer, r, "client");
                return bus_error_from_errno(r, error);
        }
        log_event(LOG_DEBUG, MESSAGE_CLIENT_ADDED,
                        LOG_FIELDS(.client = c->id, .pid = c->peer.pid, .group = c->group->name),
                        "Client %" PRIu64 ": %s, pid %d, in %s", c->id, c->peer.command, (int) c->peer.pid,
                        c->group->name);
        turn_look(m);
        r = reply_client(message, c, &f);
        turn_look(m);
        client_fds_done(&f);
        if (r < 0)
                client_free(c);
        return r;
}

/* --- queues --- */

/* Whether another pid has made the connection, as far as is known without a look at the process. That look costs
 * several times what the rest of a refused call does, and everybody may have calls refused. */
static bool is_other_pid(const Manager *m, const sd_bus_message *message, pid_t pid) {
        pid_t sender = connections_pid(m->connections, message);

        return sender > 0 && sender != pid;
}

/* Refuses the call unless it comes from the client's process: by the connection's name, or (another connection of the
 * same process, after the first was lost) by its credentials. */
static int check_is_client(sd_bus_message *message, const Client *c, sd_bus_error *error) {
        const Manager *m = c->manager;
        _cleanup_(peer_done)
        Peer peer = PEER_NULL;

        if (streq_ptr(connections_sender(m->connections, message), c->sender))
                return 0;
        if (!is_other_pid(m, message, c->peer.pid)) {
                int r = peer_from_sender(m->connections, message, &peer);
                if (r < 0)
                        return bus_peer_error(r, error);
                if (peer.pid == c->peer.pid && peer.start_time == c->peer.start_time)
                        return 0;
        }
        return sd_bus_error_setf(error, BUS_ERROR("NotOwner"), "Client %" PRIu64 " is another process", c->id);
}

static int find_client(Manager *m, const char *path, Client **ret, sd_bus_error *error) {
        int r = client_from_path(m, path, ret);
        if (r > 0)
                return 0;
        return r < 0 ? r : sd_bus_error_setf(error, BUS_ERROR("NoSuchClient"), "There is no client %s", path);
}

static int find_queue(Manager *m, uint64_t id, Queue **ret, sd_bus_error *error) {
        *ret = queue_find(m, id);
        return *ret ? 0 : sd_bus_error_setf(error, BUS_ERROR("NoSuchQueue"), "There is no queue %" PRIu64, id);
}

static const Argument queue_arguments[] = {
                {"Device", "s", offsetof(QueueParameters, device)},
                {"DeviceName", "s", offsetof(QueueParameters, device_name)},
                {"Backend", "s", offsetof(QueueParameters, backend)},
                {"Hooked", "s", offsetof(QueueParameters, hooked)},
                {"Label", "s", offsetof(QueueParameters, label)},
                {"KfdGpuId", "u", offsetof(QueueParameters, kfd_gpu_id)},
                {"KfdQueueId", "u", offsetof(QueueParameters, kfd_queue_id)},
                {"Level", "u", offsetof(QueueParameters, level)},
                {},
};

static int take_queue_property(
                sd_bus_message *message, const char *key, const char *signature, void *userdata, sd_bus_error *error) {
        QueueParameters *p = userdata;

        int r = take_argument(message, queue_arguments, key, signature, p, error);
        if (r != 0)
                return r;
        if (streq(key, "PriorityHint")) {
                int32_t hint;
                if (!streq(signature, "i"))
                        return wrong_type(key, "i", signature, error);
                r = sd_bus_message_read(message, "i", &hint);
                if (r < 0)
                        return r;
                if (hint > 0)
                        return sd_bus_error_set(
                                        error, SD_BUS_ERROR_INVALID_ARGS, "PriorityHint can only lower: at most 0");
                p->priority_hint = MAX(hint, POLICY_PRIORITY_MIN - POLICY_PRIORITY_MAX);
                return 0;
        }
        return sd_bus_message_skip(message, signature);
}

/* The client's own process may, whatever its user. */
static int grant_to_client(Manager *m, sd_bus_message *message, const Client *c, sd_bus_error *error) {
        int r = check_is_client(message, c, error);
        return r < 0 ? r : auth_grant(m->auth, message);
}

static int read_client(Manager *m, sd_bus_message *message, Client **ret, sd_bus_error *error) {
        const char *path;

        int r = sd_bus_message_read(message, "o", &path);
        return r < 0 ? r : find_client(m, path, ret, error);
}

static int read_queue(Manager *m, sd_bus_message *message, Queue **ret, sd_bus_error *error) {
        uint64_t id;

        int r = sd_bus_message_read(message, "t", &id);
        return r < 0 ? r : find_queue(m, id, ret, error);
}

int check_register_queue(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error) {
        Manager *m = userdata;
        Client *c;

        int r = read_client(m, message, &c, error);
        return r < 0 ? r : grant_to_client(m, message, c, error);
}

BUS_MANAGER_CHANGE(method_register_queue) {
        QueueParameters p = {0};
        Client *c;
        Queue *q;

        int r = read_client(m, message, &c, error);
        if (r < 0)
                return r;
        r = bus_read_properties(message, take_queue_property, &p, error);
        if (r < 0)
                return r;
        if (!p.device || !device_id_is_valid(p.device))
                return sd_bus_error_set(error, SD_BUS_ERROR_INVALID_ARGS,
                                "Device is missing, is not made of letters, digits and '.:_+-', is 'all', or begins "
                                "with 'device:'");
        if (isempty(p.backend))
                return sd_bus_error_set(error, SD_BUS_ERROR_INVALID_ARGS, "Backend is missing");

        p.mes = ladder_name_has_mes(p.backend, p.device_name);
        r = queue_new(c, &p, &q);
        if (r < 0) {
                log_refused(m, &c->peer, r, "queue");
                return bus_error_from_errno(r, error);
        }
        turn_look(m);
        r = bus_answer(m, message, "tu", q->id, q->slot);
        if (r < 0)
                queue_free(q);
        return r;
}

int check_unregister_queue(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error) {
        Manager *m = userdata;
        Queue *q;

        int r = read_queue(m, message, &q, error);
        return r < 0 ? r : grant_to_client(m, message, q->client, error);
}

BUS_MANAGER_CHANGE(method_unregister_queue) {
        Queue *q;

        int r = read_queue(m, message, &q, error);
        if (r < 0)
                return r;
        queue_free(q);
        return bus_answer(m, message, NULL);
}

/* --- wishes --- */

/* Answers. */
static int hint_all(Manager *m, sd_bus_message *message, const Settings *s, sd_bus_error *error) {
        _cleanup_(peer_done)
        Peer peer = PEER_NULL;
        Client *c, *tmp;

        int r = peer_from_sender(m->connections, message, &peer);
        if (r < 0)
                return bus_peer_error(r, error);
        bool found = false;
        HASH_ITER(hh, m->clients, c, tmp) {
                if (c->peer.pid != peer.pid || c->peer.start_time != peer.start_time)
                        continue;
                found = true;
                client_wish(c, s);
        }
        return found ? spread_process(m, &peer, message)
                     : sd_bus_error_set(error, BUS_ERROR("NoSuchClient"), "The caller is no client");
}

/* Only the client of a queue may hint about it. Every caller may hint about all of its queues (0), also if it has
 * none. */
int check_hint(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error) {
        Manager *m = userdata;
        uint64_t id;
        Queue *q;

        int r = sd_bus_message_read(message, "t", &id);
        if (r < 0)
                return r;
        if (id == 0)
                return auth_grant(m->auth, message);
        r = find_queue(m, id, &q, error);
        return r < 0 ? r : grant_to_client(m, message, q->client, error);
}

BUS_MANAGER_CHANGE(method_hint) {
        Settings s;
        uint64_t id;
        Queue *q;

        int r = sd_bus_message_read(message, "t", &id);
        if (r < 0)
                return r;
        r = bus_read_settings(m, message, &s, error);
        if (r < 0)
                return r;
        if (id == 0)
                return hint_all(m, message, &s, error);
        r = find_queue(m, id, &q, error);
        if (r < 0)
                return r;
        settings_merge(&q->wish, &s);
        r = queue_settings_changed(q);
        queue_write(q);
        if (r < 0)
                return r;
        return bus_answer(m, message, NULL);
}
