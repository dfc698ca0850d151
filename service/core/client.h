/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Clients: one registered process
 *
 * The service keeps the page and its own record of every word it wrote; nothing that the client can write is read back
 * as truth. A client is gone when its lifeline hangs up or its process ends, whichever is seen first: a forked child
 * that inherited the lifeline does not keep its parent's client alive, and a parent that closed it on purpose is gone
 * while it still lives.
 *
 * What has to survive a restart of the service is written to a second memfd, `meta`, which the client never sees; with
 * page, lifeline, wake and pidfd it goes to systemd's file-descriptor store (fdstore.h), and client_adopt() in
 * client-state.h makes the client again from the five.
 */

#include "ancestors.h"
#include "cgroup/peer.h"
#include "common/page.h"
#include "group.h"
#include "hold.h"
#include "queue.h"
#include "service/base/journal.h"
#include "user-units.h"

/* The groups of the cgroups that a user's processes are in are bounded together, in bytes; see group_cost(). */
#define CLIENT_PLACES_MAX (128U << 20)

/* keep.h: whether it is in the file-descriptor store. */
typedef enum ClientKeep {
        KEEP_NOT,
        KEEP_KEPT,
        KEEP_WAITS, /* for room */
} ClientKeep;

/* What the page says. For showing only: the client can write there what it likes. */
typedef struct ClientCounters {
        uint64_t submitted, completed, held_ns, lease_expired;
} ClientCounters;

/* counters.c */
void client_counters_add(ClientCounters *sum, const ClientCounters *add);

struct Client {
        Manager *manager;
        uint64_t id;
        char *path;
        Peer peer;
        User *user;
        char *sender; /* unique name of the connection that registered it, or a guest's; empty: neither is there now */
        char *shim_version, *backend;
        Group *group;

        Page page;
        Journal meta; /* what has to survive a restart */
        int lifeline, wake;
        sd_event_source *lifeline_source, *pidfd_source;

        Slot *slots;
        uint32_t n_slots;
        uint32_t next_slot; /* where the search for a free slot begins */
        unsigned n_queues;
        unsigned n_holding; /* slots whose word says hold */
        bool to_be_told;    /* on the manager's list of clients to be notified */
        Client *to_be_told_next;
        Client *holding_prev, *holding_next; /* of the manager's list, while n_holding > 0 */

        Settings override;    /* Client.Set */
        Settings wish;        /* of the process itself */
        Settings lowering;    /* Client.Set by its owner: only lowers */
        Settings hold;        /* HoldPriority: a class, or empty */
        Settings hold_lowers; /* the same, of a user who may no more than lower */
        struct {
                Hold *hold; /* that counts; NULL: none */
                Client *prev, *next;
        } held_by[_HOLD_KIND_MAX];
        Ancestors ancestors; /* as far as read: once there was a hold that asks for them */
        Settings advised; /* names the class whose [Match] fits by what cannot be believed, if one does: only lowers */
        char *advised_detail; /* why */
        Settings bound; /* names the class that the group would have, were all in it this one's user: only lowers */
        char *bound_detail;
        UserUnits units; /* that it told of, when it is in a user's manager */
        SettingsResolved resolved;
        bool adopting; /* its queues are made from what was kept: client-state.h */
        bool own;      /* an entity of its own, see client_settings_changed() */
        bool suspended;

        uint64_t n_edges;
        ClientCounters past; /* of queues that are gone */
        bool announced;      /* on the bus */
        unsigned place_cost; /* what its groups count there */

        ClientKeep kept;
        Client *kept_prev, *kept_next; /* of its user's list of those who are kept, or wait for it */
        bool watched, silent; /* wakes.h; the latter: on its user's list of those who are looked at by time */
        Client *silent_prev, *silent_next;
        bool condemned; /* crowd.h */
        Client *condemned_next;

        PrivilegedClient *privileged; /* privileged.h; NULL: never held so */
        bool privileged_touched;      /* on the list of those to be looked at */
        Client *privileged_next;

        int cpu_priority; /* nice.h */
        bool halted;      /* its cgroup is frozen: halt.h */
        struct HaltCgroup *halt;
        Client *halt_prev, *halt_next;

        Client *group_prev, *group_next;
        UT_hash_handle hh;
};

static inline Slot *queue_slot(const Queue *q) {
        return q->client->slots + q->slot;
}

/* Its word says hold. */
static inline bool queue_holds(const Queue *q) {
        return queue_slot(q)->word & PAGE_VERDICT_HOLD;
}

/* Everything that RegisterClient makes. On success the client's ends are in ret_fds: they are for the reply, and the
 * caller closes them. -EDQUOT: the user's quota. */
typedef struct ClientFds {
        int page, lifeline, wake;
} ClientFds;

typedef struct ClientParameters {
        const char *sender, *shim_version, *backend;
        Settings wish;
        UserUnits *units; /* taken on success; may be NULL */
        Job *job;         /* NULL: the process's cgroup decides */
} ClientParameters;

void client_fds_done(ClientFds *f);

int client_new(Manager *m, Peer *peer, const ClientParameters *p, Client **ret, ClientFds *ret_fds);
Client *client_free(Client *c);

/* numbers.c */
Client *client_find(Manager *m, uint64_t id);

/* The newest client of a process. `start_time` 0: any. */
Client *client_find_by_pid(Manager *m, pid_t pid, uint64_t start_time);

/* crowd.c: "look": watch flags or levels changed. Never waits; a client that does not read loses it. */
void client_notify(Client *c);

/* resolve.c: resolves its settings and those of its queues. A client is an entity of its own when it has an override,
 * or when it asked for less than its group has. */
void client_settings_changed(Client *c);

/* Only resolves its own, for a client that is being made. */
void client_resolve(Client *c);

/* Of these the client's own part: its queues follow (spread.h). */
void client_own_settings_changed(Client *c);

/* client-match.c: finds `advised` and `bound` anew. */
void client_match(Client *c);

/* Its process is in another cgroup: the client and its queues go to that group; what they used so far stays the
 * former's. In a job of root's it stays in the job's group. */
int client_moved(Client *c);

/* suspended.c: the group by which it is suspended: its own, or one above; of a job's, the cgroup's that the process is
 * in, too. NULL: by none. */
const Group *client_suspended_by(const Client *c);

/* suspension.c: after its group, or one above, was suspended or resumed. */
void client_suspension_changed(Client *c);
void client_set_suspended(Client *c, bool suspended);

/* layers.c: the layers that decide, strongest first. */
#define CLIENT_LAYERS_MAX (2U + GROUP_LAYERS_MAX)
size_t client_layers(const Client *c, SettingsLayer layers[static CLIENT_LAYERS_MAX]);
#define QUEUE_LAYERS_MAX (1U + CLIENT_LAYERS_MAX) /* its own override */

/* What applies last, and only ever lowers: what lowers its group, then a hold, the class that fits by what it calls
 * itself, its own wish, its owner. Returns whether something that is not the group's did. */
#define CLIENT_LOWERING_MAX (GROUP_LOWERING_MAX + 5U)
size_t client_lowering_layers(const Client *c, SettingsLayer layers[static CLIENT_LOWERING_MAX]);
bool client_lower(const Client *c, SettingsResolved *r);

/* What its environment says is no wish of its own where its unit's Environment= says the same. Returns whether it had
 * such wishes. */
static inline bool client_forget_wish(Client *c, const Settings *environment) {
        return settings_forget_equal(&c->wish, environment);
}

/* Takes what the process wishes beside what it wished before, by a hint; its library sends its environment like this,
 * too. Its settings follow. */
void client_wish(Client *c, const Settings *s);

/* counters.c: over all its queues, those that are gone, too. */
void client_counters(const Client *c, ClientCounters *ret);

/* "idle", "running", "held" or "suspended": the worst of its queues. */
QueueState client_state(const Client *c);

/* --- restart --- */

/* What is left of a client of the former service, without its queues. */
typedef struct ClientKept {
        uint64_t id;
        Page page;
        Journal meta;
        int lifeline, wake;
        Group *group;
        const char *sender, *shim_version, *backend;
        Settings override, lowering, wish;
        UserUnits units;
        bool suspended;
} ClientKept;

#define CLIENT_KEPT_NULL                                                                                    \
        ((ClientKept){.page = PAGE_NULL, .meta = JOURNAL_NULL, .lifeline = -EBADF, .wake = -EBADF})

void client_kept_done(ClientKept *k);

/* Takes the peer and the fds of k. */
int client_restore(Manager *m, Peer *peer, ClientKept *k, Client **ret);
