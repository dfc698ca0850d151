/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Jobs and priority holds on the bus
 */

#include <fcntl.h>
#include <utlist.h>

#include "answer.h"
#include "audit.h"
#include "calls.h"
#include "cgroup/cgroup-attr.h"
#include "common/bus-flags.h"
#include "manager-dbus.h"
#include "service/core/arbiter.h"
#include "service/core/hold.h"
#include "service/core/job.h"
#include "service/settings/config.h"

/* What only lowers the caller's own is no news: it comes and goes with his processes, like registrations. */
static void audit_own(
                Manager *m, sd_bus_message *message, const AuditObject *o, const Settings *s, bool lowers) {
        _cleanup_(audit_done)
        Audit a = AUDIT_NULL;

        if (lowers)
                return;
        audit_begin(m, message, &a);
        audit_settings(&a, o, NULL, NULL, s);
}

static void audit_job(Manager *m, sd_bus_message *message, const Job *j, const JobParameters *p, pid_t pid) {
        const AuditObject o = {
                        .fields = {.group = j->group->name, .pid = pid},
                        .name = j->group->name,
                        .how = " (job)",
        };

        audit_own(m, message, &o, &p->settings, p->lowers);
}

/* --- jobs --- */

/* Settings for something of the caller's own that does not exist yet: nothing in it may exceed the default class. */
static AuthRequest own_request(Manager *m, const Settings *s, uid_t uid, const char *target) {
        const SettingsLayer layers[] = {
                        {SETTINGS_FROM_JOB, NULL, s},
                        {SETTINGS_FROM_DEFAULT, NULL, &m->default_layer},
        };
        SettingsResolved wanted, usual;

        settings_resolve(layers, 2, manager_lookup_class, m, &wanted);
        settings_resolve(layers + 1, 1, manager_lookup_class, m, &usual);
        return bus_settings_request(&usual, &wanted, uid, target);
}

/* Who needed no more than the right to manage his own lowers: below what systemd has still to tell of a unit, too. */
static bool only_lowers(const AuthRequest *request, uid_t sender) {
        return sender != 0 && request->action == AUTH_MANAGE_OWN && request->owner == sender;
}

typedef struct JobArguments {
        const char *name;
        Settings settings;
        int fd;
        uint64_t flags;
        uid_t uid; /* of the caller */
} JobArguments;

static int read_arguments(Manager *m, sd_bus_message *message, JobArguments *ret, sd_bus_error *error) {
        JobArguments a = {.fd = -EBADF};

        int r = sd_bus_message_read(message, "s", &a.name);
        if (r < 0)
                return r;
        r = bus_read_settings(m, message, &a.settings, error);
        if (r < 0)
                return r;
        r = sd_bus_message_read(message, "ht", &a.fd, &a.flags);
        if (r < 0)
                return r;
        r = bus_check_known_flags(a.flags, JOB_FLAG_CGROUP | JOB_FLAG_CHECK, error);
        if (r < 0)
                return r;
        if (!job_name_is_valid(a.name))
                return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS,
                                "A job's name is made of letters, digits and '._:@+-', and shorter than %u",
                                JOB_NAME_MAX);
        r = auth_sender_uid(message, &a.uid);
        if (r < 0)
                return r;
        *ret = a;
        return 0;
}

static int find_process(const JobArguments *a, Peer *ret, sd_bus_error *error) {
        _cleanup_(peer_done)
        Peer peer = PEER_NULL;
        pid_t pid = 0;

        int r = pidfd_get_pid(a->fd, &pid);
        if (r == -EBADF)
                return sd_bus_error_set(error, SD_BUS_ERROR_INVALID_ARGS, "That is not a pidfd");
        if (r >= 0)
                r = peer_from_pid(pid, &peer);
        if (r >= 0 && pidfd_is_alive(a->fd) <= 0)
                r = -ESRCH; /* the number may be another's by now */
        if (r < 0)
                return sd_bus_error_set(error, SD_BUS_ERROR_INVALID_ARGS, "The process has ended");
        if (a->uid != 0 && peer.uid != a->uid)
                return sd_bus_error_set(error, BUS_ERROR("NotOwner"), "That is another user's process");
        *ret = TAKE_GENERIC(peer, PEER_NULL);
        return 0;
}

/* Of a cgroup: who may make and remove processes' groups in it. */
static uid_t owner_of(const char *cgroup) {
        uid_t uid;

        return cgroup_owner(cgroup, &uid) >= 0 && uid != 0 ? uid : AUTH_NO_OWNER;
}

/* A group with what the job says, as it would come out. */
static void job_would_be(const Group *g, const Settings *s, SettingsResolved *ret) {
        SettingsLayer layers[GROUP_LAYERS_MAX + 1];
        SettingsResolved r;

        /* Right below the override, which comes first. */
        size_t n = group_layers(g, layers + 1);
        layers[0] = layers[1];
        layers[1] = (SettingsLayer){SETTINGS_FROM_JOB, NULL, s};
        settings_resolve(layers, n + 1, manager_lookup_class, g->manager, &r);
        (void) group_lower(g, &r);
        *ret = r;
}

static AuthRequest cgroup_request(const Group *g, const JobArguments *a) {
        SettingsResolved changed;

        job_would_be(g, &a->settings, &changed);
        return bus_settings_request(&g->resolved, &changed, owner_of(g->name), g->name);
}

static int check_cgroup_job(Manager *m, sd_bus_message *message, const JobArguments *a, const char *cgroup,
                sd_bus_error *error) {
        Group *g;

        int r = group_get(m, cgroup, &g);
        if (r < 0)
                return bus_error_from_errno(r, error);
        if (g->job || g->kind != GROUP_CGROUP)
                return sd_bus_error_setf(
                                error, SD_BUS_ERROR_INVALID_ARGS, "%s is another job's already", g->name);
        const AuthRequest request = cgroup_request(g, a);
        r = auth_check(m->auth, message, &request, error);
        group_gc(g); /* a question that is still open does not keep it */
        return r;
}

int check_create_job(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error) {
        _cleanup_(peer_done)
        Peer peer = PEER_NULL;
        Manager *m = userdata;
        JobArguments a = {.fd = -EBADF};

        int r = read_arguments(m, message, &a, error);
        if (r < 0)
                return r;
        r = find_process(&a, &peer, error);
        if (r < 0)
                return r;
        if (a.flags & JOB_FLAG_CGROUP)
                return check_cgroup_job(m, message, &a, peer.cgroup, error);
        const AuthRequest request = own_request(m, &a.settings, a.uid, a.name);
        return auth_check(m->auth, message, &request, error);
}

static int create_cgroup_job(Manager *m, sd_bus_message *message, const JobArguments *a, const Peer *peer,
                sd_bus_error *error) {
        Group *g;
        Job *j;

        int r = group_get(m, peer->cgroup, &g);
        if (r < 0)
                return bus_error_from_errno(r, error);
        const AuthRequest request = cgroup_request(g, a);
        const JobParameters p = {
                        .group = g,
                        .settings = a->settings,
                        .lowers = only_lowers(&request, a->uid),
                        .uid = a->uid,
        };
        r = job_new(m, &p, peer->pidfd, &j);
        if (r < 0) {
                group_gc(g);
                return bus_error_from_errno(r, error);
        }
        audit_job(m, message, j, &p, peer->pid);
        arbiter_flush(m);
        r = sd_bus_reply_method_return(message, "so", "", g->path);
        return r < 0 ? r : 1;
}

static int create_own_job(Manager *m, sd_bus_message *message, const JobArguments *a, const Peer *peer,
                sd_bus_error *error) {
        const AuthRequest request = own_request(m, &a->settings, a->uid, a->name);
        const JobParameters p = {
                        .name = a->name,
                        .cgroup = peer->cgroup,
                        .settings = a->settings,
                        .lowers = only_lowers(&request, a->uid),
                        .uid = a->uid,
        };
        Job *j;

        int r = job_new(m, &p, peer->pidfd, &j);
        if (r < 0)
                return bus_error_from_errno(r, error);
        turn_look(m);
        audit_job(m, message, j, &p, peer->pid);
        arbiter_flush(m);
        return sd_bus_reply_method_return(message, "so", j->token, j->group->path);
}

BUS_MANAGER_CHANGE(method_create_job) {
        _cleanup_(peer_done)
        Peer peer = PEER_NULL;
        JobArguments a = {.fd = -EBADF};

        int r = read_arguments(m, message, &a, error);
        if (r < 0)
                return r;
        if (a.flags & JOB_FLAG_CHECK)
                return sd_bus_reply_method_return(message, "so", "", BUS_PATH);
        r = find_process(&a, &peer, error);
        if (r < 0)
                return r;
        turn_look(m);
        return a.flags & JOB_FLAG_CGROUP ? create_cgroup_job(m, message, &a, &peer, error)
                                         : create_own_job(m, message, &a, &peer, error);
}

/* --- holds --- */

/* What the numbers, the class and the framing of one take in a list, about. */
#define HOLD_SIZE 64

typedef struct HoldArguments {
        const char *class, *reason;
        Settings settings;
        uint64_t flags;
} HoldArguments;

static int read_hold(Manager *m, sd_bus_message *message, HoldArguments *ret, sd_bus_error *error) {
        HoldArguments a = {.settings = SETTINGS_NULL};

        int r = sd_bus_message_read(message, "sst", &a.class, &a.reason, &a.flags);
        if (r < 0)
                return r;
        r = bus_check_known_flags(a.flags, HOLD_FLAG_DESCENDANTS, error);
        if (r < 0)
                return r;
        r = bus_check_string("The reason", a.reason, error);
        if (r < 0)
                return r;
        if (settings_set_class(&a.settings, a.class) < 0)
                return sd_bus_error_set(
                                error, BUS_ERROR("NoSuchClass"), "That cannot be the name of a class");
        r = bus_check_class(m, &a.settings, error);
        if (r < 0)
                return r;
        *ret = a;
        return 0;
}

/* The caller, and what it takes. */
static int hold_request(Manager *m, sd_bus_message *message, const HoldArguments *a, Peer *ret_peer,
                AuthRequest *ret, sd_bus_error *error) {
        int r = peer_from_sender(m->connections, message, ret_peer);
        if (r < 0)
                return bus_peer_error(r, error);
        *ret = own_request(m, &a->settings, ret_peer->uid, a->class);
        return 0;
}

int check_hold_priority(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error) {
        _cleanup_(peer_done)
        Peer peer = PEER_NULL;
        Manager *m = userdata;
        AuthRequest request = {0};
        HoldArguments a = {0};

        int r = read_hold(m, message, &a, error);
        if (r >= 0)
                r = hold_request(m, message, &a, &peer, &request, error);
        return r < 0 ? r : auth_check(m->auth, message, &request, error);
}

/* Until it counts for all that it is for. */
typedef struct HoldCall {
        sd_bus_message *message;
        HoldBegin begin;
        int fd;
} HoldCall;

static void hold_call_free(void *userdata) {
        HoldCall *call = userdata;

        hold_begin_done(&call->begin);
        sd_bus_message_unref(call->message);
        safe_close(call->fd);
        free(call);
}

static int hold_call_step(void *userdata) {
        HoldCall *call = userdata;

        if (hold_begin_step(&call->begin))
                return 1;
        arbiter_flush(call->begin.hold->manager);
        return MIN(sd_bus_reply_method_return(call->message, "h", call->fd), 0);
}

static int hold_go_on(Manager *m, sd_bus_message *message, const Peer *peer, const HoldParameters *p) {
        HoldCall *call = malloc(sizeof(*call));
        Hold *h;

        if (!call)
                return -ENOMEM;
        *call = (HoldCall){.fd = -EBADF};
        int r = hold_new(m, peer, p, &h, &call->fd);
        if (r < 0) {
                free(call);
                return r;
        }
        call->message = sd_bus_message_ref(message);
        hold_begin(&call->begin, h);
        const CallWork work = {hold_call_step, hold_call_free, call};
        return call_go_on(m, message, &work);
}

BUS_MANAGER_CHANGE(method_hold_priority) {
        _cleanup_(peer_done)
        Peer peer = PEER_NULL;
        AuthRequest request = {0};
        HoldArguments a = {0};

        int r = read_hold(m, message, &a, error);
        if (r >= 0)
                r = hold_request(m, message, &a, &peer, &request, error);
        if (r < 0)
                return r;
        const AuditObject o = {.fields.pid = peer.pid, .name = peer.command, .how = " (hold)"};
        const HoldParameters p = {
                        .reason = a.reason,
                        .settings = a.settings,
                        .lowers = only_lowers(&request, peer.uid),
                        .descendants = a.flags & HOLD_FLAG_DESCENDANTS,
        };
        r = hold_go_on(m, message, &peer, &p);
        if (r < 0)
                return bus_error_from_errno(r, error);
        audit_own(m, message, &o, &p.settings, p.lowers);
        return r;
}

static int append_hold(Answer *a, WalkTable table, void *object) {
        const Hold *h = object;

        int r = sd_bus_message_append(a->reply, "(uusssb)", (uint32_t) h->pid, (uint32_t) h->uid, h->command,
                        h->settings.class, h->reason, (int) h->descendants);
        return r < 0 ? r : HOLD_SIZE + (int) (strlen(h->command) + strlen(h->reason));
}

int method_list_holds(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        static const AnswerOps ops = {
                        .object = append_hold,
                        .end = answer_send,
                        .tables = {WALK_HOLDS},
                        .n_tables = 1,
        };
        return answer_list(userdata, message, &ops, "(uusssb)");
}
