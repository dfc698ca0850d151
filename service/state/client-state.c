/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Clients over a restart of the service
 *
 * The client's ledger has three kinds of records: {"client": ...}, of which the last one counts; {"queue": ...}, of
 * which the last one for each id counts; and {"gone": id}, which ends a queue.
 */

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <systemd/sd-id128.h>

#include "client-state.h"
#include "service/base/log.h"
#include "service/core/job.h"
#include "service/core/numbers.h"
#include "service/core/turn.h"
#include "service/settings/json-util.h"

/* --- writing --- */

static int fill_units(const Client *c, json_object *o) {
        json_object *units = json_object_new_object();

        JSON_TRY(json_add(o, "units", units));
        for (size_t i = 0; i < c->units.n; i++)
                JSON_TRY(json_add_settings(units, c->units.items[i].name, &c->units.items[i].settings));
        return 0;
}

static int fill_sender(const Client *c, json_object *o) {
        const char *bus = c->manager->bus_id;

        /* Names of guests are given anew after a restart, so they are not kept. */
        JSON_TRY(json_add_string(o, "sender", c->sender[0] == ':' ? c->sender : ""));
        return isempty(bus) ? 0 : json_add_string(o, "bus", bus);
}

static int fill_client(const Client *c, json_object *o) {
        JSON_TRY(json_add_u64(o, "id", c->id));
        JSON_TRY(json_add_int(o, "pid", (int) c->peer.pid));
        JSON_TRY(json_add_u64(o, "start_time", c->peer.start_time));
        JSON_TRY(json_add_u64(o, "uid", c->peer.uid));
        JSON_TRY(json_add_string(o, "group", c->group->name));
        JSON_TRY(fill_sender(c, o));
        JSON_TRY(json_add_string(o, "shim_version", c->shim_version));
        JSON_TRY(json_add_string(o, "backend", c->backend));
        JSON_TRY(json_add_settings(o, "override", &c->override));
        JSON_TRY(json_add_settings(o, "lowering", &c->lowering));
        JSON_TRY(json_add_settings(o, "wish", &c->wish));
        JSON_TRY(fill_units(c, o));
        return json_add_bool(o, "suspended", c->suspended);
}

static int fill_queue(const Queue *q, json_object *o) {
        JSON_TRY(json_add_u64(o, "id", q->id));
        JSON_TRY(json_add_u64(o, "slot", q->slot));
        JSON_TRY(json_add_string(o, "device", q->device->id));
        JSON_TRY(json_add_string(o, "device_name", q->device->name));
        JSON_TRY(json_add_string(o, "backend", q->backend));
        JSON_TRY(json_add_string(o, "label", q->label));
        JSON_TRY(json_add_int(o, "priority_hint", q->priority_hint));
        JSON_TRY(json_add_u64(o, "level", q->max_level));
        JSON_TRY(json_add_bool(o, "mes", q->mes));
        JSON_TRY(json_add_u64(o, "kfd_gpu_id", q->kfd_gpu_id));
        JSON_TRY(json_add_u64(o, "kfd_queue_id", q->kfd_queue_id));
        JSON_TRY(json_add_settings(o, "override", &q->override));
        JSON_TRY(json_add_settings(o, "lowering", &q->lowering));
        JSON_TRY(json_add_settings(o, "wish", &q->wish));
        return json_add_bool(o, "suspended", q->suspended);
}

static int append_client(Client *c) {
        _cleanup_json_ json_object *record = json_object_new_object();
        json_object *o = json_object_new_object();

        JSON_TRY(json_add(record, "client", o));
        JSON_TRY(fill_client(c, o));
        return ledger_append(&c->meta, record);
}

static int append_queue(Queue *q) {
        _cleanup_json_ json_object *record = json_object_new_object();
        json_object *o = json_object_new_object();

        JSON_TRY(json_add(record, "queue", o));
        JSON_TRY(fill_queue(q, o));
        return ledger_append(&q->client->meta, record);
}

static int append_gone(Client *c, uint64_t id) {
        _cleanup_json_ json_object *record = json_object_new_object();

        if (!record)
                return -ENOMEM;
        JSON_TRY(json_add_u64(record, "gone", id));
        return ledger_append(&c->meta, record);
}

static int append_all(Client *c) {
        int r = append_client(c);

        for (uint32_t i = 0; r >= 0 && i < c->n_slots; i++)
                if (c->slots[i].queue) {
                        r = append_queue(c->slots[i].queue);
                        turn_look(c->manager);
                }
        return r;
}

static int compact(Client *c) {
        if (!ledger_is_bloated(&c->meta))
                return 0;
        ledger_begin(&c->meta);
        int r = append_all(c);
        if (r < 0) {
                ledger_abort(&c->meta);
                return r;
        }
        return ledger_commit(&c->meta);
}

static void written(Client *c, int r) {
        if (r >= 0)
                r = compact(c);
        if (r < 0)
                log_event(LOG_WARNING, NULL, LOG_FIELDS(.client = c->id, .error = r),
                                "A change of client %" PRIu64 " would not survive a restart: %m", c->id);
}

/* Whether changes of the client are recorded: not while the service ends, because the next service is to find the
 * records as they are. */
static bool is_kept(const Client *c) {
        return c->meta.fd >= 0 && !c->manager->stopping;
}

void client_write(Client *c) {
        if (is_kept(c))
                written(c, append_client(c));
}

void queue_write(Queue *q) {
        if (is_kept(q->client))
                written(q->client, append_queue(q));
}

void queue_write_gone(Queue *q) {
        if (is_kept(q->client))
                written(q->client, append_gone(q->client, q->id));
}

int client_serialize(Client *c) {
        int r = ledger_new("xsched-client", &c->meta);
        return r < 0 ? r : append_all(c);
}

/* --- reading --- */

/* The records that count: the last one of the client, and the last one of each queue that is not gone. */
typedef struct Kept {
        json_object *client;
        json_object *queues; /* by id */
} Kept;

static void kept_done(Kept *k) {
        json_object_put(k->client);
        json_object_put(k->queues);
}

static int take_record(json_object *record, void *userdata) {
        Kept *k = userdata;
        json_object *o;
        char id[32];

        if (json_object_object_get_ex(record, "client", &o)) {
                json_object_put(k->client);
                k->client = json_object_get(o);
        } else if (json_object_object_get_ex(record, "queue", &o)) {
                (void) snprintf(id, sizeof(id), "%" PRIu64, json_get_u64(o, "id"));
                return json_add(k->queues, id, json_object_get(o));
        } else if (json_object_object_get_ex(record, "gone", &o)) {
                (void) snprintf(id, sizeof(id), "%" PRIu64, json_object_get_uint64(o));
                json_object_object_del(k->queues, id);
        }
        return 0;
}

static int adopt_queue(Client *c, json_object *o) {
        const QueueParameters p = {
                        .device = json_get_string(o, "device"),
                        .device_name = json_get_string(o, "device_name"),
                        .backend = json_get_string(o, "backend"),
                        .label = json_get_string(o, "label"),
                        .priority_hint = json_get_int(o, "priority_hint"),
                        .level = (uint32_t) MIN(json_get_u64(o, "level"), (uint64_t) LEVEL_INTERRUPT),
                        .mes = json_get_bool(o, "mes"),
                        .kfd_gpu_id = (uint32_t) json_get_u64(o, "kfd_gpu_id"),
                        .kfd_queue_id = (uint32_t) json_get_u64(o, "kfd_queue_id"),
        };
        uint64_t slot = json_get_u64(o, "slot");
        QueueKept kept = {.suspended = json_get_bool(o, "suspended")};

        json_get_settings(o, "override", &kept.override);
        json_get_settings(o, "lowering", &kept.lowering);
        json_get_settings(o, "wish", &kept.wish);
        if (slot >= PAGE_SLOTS_MAX)
                return -EBADMSG;
        return queue_adopt(c, json_get_u64(o, "id"), (uint32_t) slot, &p, &kept);
}

static int adopt_queues(Client *c, json_object *queues) {
        json_object_object_foreach(queues, key, o) {
                (void) key;
                int r = adopt_queue(c, o);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Finds the job's group if the job exists again, else the group of the cgroup where the process is now. */
static int find_group(Manager *m, const Peer *peer, const char *name, Group **ret) {
        Group *g = startswith(name, "job:") ? group_find(m, name) : NULL;

        if (!g || (g->job && !job_takes(g->job, peer)))
                return group_get(m, peer->cgroup, ret);
        *ret = g;
        return 0;
}

/* Makes copies, so that a failure leaves the caller's fds alone. */
static int kept_fds(ClientKept *k, Peer *peer, json_object *client, int page, int lifeline, int wake, int pidfd) {
        k->lifeline = fcntl(lifeline, F_DUPFD_CLOEXEC, 3);
        k->wake = fcntl(wake, F_DUPFD_CLOEXEC, 3);
        if (k->lifeline < 0 || k->wake < 0)
                return negative_errno();

        _cleanup_close_ int page_copy = fcntl(page, F_DUPFD_CLOEXEC, 3);
        if (page_copy < 0)
                return negative_errno();
        int r = page_open(page_copy, &k->page);
        if (r < 0)
                return r;
        TAKE_FD(page_copy);

        _cleanup_close_ int pidfd_copy = fcntl(pidfd, F_DUPFD_CLOEXEC, 3);
        if (pidfd_copy < 0)
                return negative_errno();
        r = peer_from_pidfd(pidfd_copy, (pid_t) json_get_int(client, "pid"), json_get_u64(client, "start_time"), peer);
        if (r < 0)
                return r;
        TAKE_FD(pidfd_copy);
        peer->uid = (uid_t) json_get_u64(client, "uid");
        return 0;
}

static int get_units(json_object *o, UserUnits *ret) {
        json_object *units;
        Settings s;

        if (!json_object_object_get_ex(o, "units", &units))
                return 0;
        json_object_object_foreach(units, name, settings) {
                (void) settings;
                json_get_settings(units, name, &s);
                int r = user_units_add_settings(ret, name, &s);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* The client's unique name. NULL when it was another bus's, which gives the same names to other connections: then only
 * its process identifies the client. */
static const char *get_sender(const Manager *m, json_object *o) {
        bool is_same = !isempty(m->bus_id) && streq_ptr(json_get_string(o, "bus"), m->bus_id);

        return is_same ? json_get_string(o, "sender") : NULL;
}

static int adopt_client(
                Manager *m, ClientKept *k, json_object *o, int page, int lifeline, int wake, int pidfd, Client **ret) {
        _cleanup_(peer_done)
        Peer peer = PEER_NULL;

        k->id = json_get_u64(o, "id");
        if (k->id == 0 || client_find(m, k->id))
                return -EBADMSG;
        int r = kept_fds(k, &peer, o, page, lifeline, wake, pidfd);
        if (r < 0)
                return r;
        r = find_group(m, &peer, json_get_string(o, "group"), &k->group);
        if (r < 0)
                return r;
        k->sender = get_sender(m, o);
        k->shim_version = json_get_string(o, "shim_version");
        k->backend = json_get_string(o, "backend");
        k->suspended = json_get_bool(o, "suspended");
        json_get_settings(o, "override", &k->override);
        json_get_settings(o, "lowering", &k->lowering);
        json_get_settings(o, "wish", &k->wish);
        r = get_units(o, &k->units);
        if (r < 0)
                return r;
        r = client_restore(m, &peer, k, ret);
        if (r < 0)
                group_gc(k->group);
        return r;
}

int client_adopt(Manager *m, int meta, int page, int lifeline, int wake, int pidfd, Client **ret) {
        _cleanup_(kept_done)
        Kept kept = {.queues = json_object_new_object()};
        _cleanup_(client_kept_done)
        ClientKept k = CLIENT_KEPT_NULL;
        _cleanup_close_ int meta_copy = fcntl(meta, F_DUPFD_CLOEXEC, 3);
        Client *c = NULL;

        if (!kept.queues)
                return -ENOMEM;
        if (meta_copy < 0)
                return negative_errno();
        int r = ledger_open(meta_copy, &k.meta);
        if (r < 0)
                return r;
        TAKE_FD(meta_copy);
        r = ledger_read(&k.meta, take_record, &kept);
        if (r < 0)
                return r;
        if (!kept.client)
                return -EBADMSG;
        r = adopt_client(m, &k, kept.client, page, lifeline, wake, pidfd, &c);
        if (r < 0)
                return r;
        c->adopting = true;
        r = adopt_queues(c, kept.queues);
        c->adopting = false;
        if (r < 0) {
                client_free(c);
                return r;
        }

        safe_close(meta);
        safe_close(page);
        safe_close(lifeline);
        safe_close(wake);
        safe_close(pidfd);
        *ret = c;
        return 0;
}
