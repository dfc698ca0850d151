/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Client: one registered process
 *
 * The service records every word that it writes to the page, and never trusts the page, because the client can write
 * it. A client ends when its lifeline hangs up or its process ends, whichever is seen first. So a forked child that
 * inherited the lifeline does not keep its parent's client alive, and a process that closes its lifeline ends its
 * client.
 *
 * State that has to survive a restart of the service is written to a second memfd, `meta`, which the client never sees.
 * It goes to systemd's file-descriptor store (fdstore.h) with page, lifeline, wake and pidfd, and client_adopt() in
 * client-state.h makes the client again from these five.
 */

#include "ancestors.h"
#include "cgroup/peer.h"
#include "claim.h"
#include "common/page.h"
#include "group.h"
#include "queue.h"
#include "service/base/ledger.h"
#include "user-units.h"

/* Limit, in bytes, of all groups that the cgroups of one user's processes need; see group_cost(). */
#define CLIENT_PLACES_MAX (128U << 20)

/* keep.h: whether the client's fds are in the file-descriptor store. */
typedef enum ClientKeep {
        KEEP_NOT,
        KEEP_KEPT,
        KEEP_WAITS, /* for room */
} ClientKeep;

/* Counters of the page. For display only: the client can write any number there. */
typedef struct ClientCounters {
        uint64_t submitted, completed, held_ns, lease_expired;
} ClientCounters;

/* What each edge reads comes first, and is in few lines of a cache. */
struct Client {
        Manager *manager;
        uint64_t id;
        User *user;
        Group *group;
        Slot *slots;
        uint32_t n_slots;
        bool own; /* an entity of its own, see client_settings_changed() */
        bool suspended;
        bool halted;          /* its cgroup is frozen: halt.h */
        bool watched, silent; /* wakes.h; `silent`: on User.silent, its page is looked at by a timer */
        Page page;
        uint64_t n_edges;

        Peer peer;
        char *sender; /* unique bus name, or a guest's name, that registered it; "": that connection is gone */
        char *shim_version, *backend;

        Ledger meta; /* what has to survive a restart */
        int lifeline, wake;
        sd_event_source *lifeline_source, *pidfd_source;

        uint32_t next_slot; /* where the search for a free slot begins */
        unsigned n_queues;
        unsigned n_holding;    /* slots with a hold verdict */
        unsigned n_privileged; /* queues with Queue.privileged */
        bool to_be_told;       /* on Manager.to_be_told */
        Client *to_be_told_next;
        Client *holding_prev, *holding_next; /* Manager.holding, while n_holding > 0 */

        Settings override;     /* Client.Set */
        Settings wish;         /* asked for by the process itself */
        Settings lowering;     /* Client.Set by its owner: only lowers */
        Settings claim;        /* HoldPriority: names a class, or empty */
        Settings claim_lowers; /* the same, from a user who may only lower */
        struct {
                Claim *claim; /* the claim in force; NULL: none */
                Client *prev, *next;
        } claimed_by[_CLAIM_KIND_MAX];
        Ancestors ancestors;  /* as far as read; empty until a claim with `descendants` asks */
        Settings advised;     /* names the class whose [Match] fits by facts that a process can forge: only lowers */
        char *advised_detail; /* why */
        Settings bound; /* names the class that the group would have if it held only this user's clients: only lowers */
        char *bound_detail;
        UserUnits units; /* units that the process told of: it runs under a user's manager */
        SettingsResolved resolved;
        bool adopting; /* its queues are being restored: client-state.h */
        RotaMember rota;
        bool flies, flights_looked; /* while ladder.c looks at an entity */

        ClientCounters past; /* of freed queues */
        bool announced;      /* on the bus */
        unsigned place_cost; /* its part of USER_PLACES, in bytes */

        ClientKeep kept;
        Client *kept_prev, *kept_next; /* User.kept or User.unkept */
        Client *silent_prev, *silent_next;
        bool condemned; /* crowd.h */
        Client *condemned_next;

        PrivilegedClient *privileged; /* privileged.h; NULL: never held by privilege */
        bool privileged_touched;      /* on the list that privileged.c looks at next */
        Client *privileged_next;

        struct HaltCgroup *halt;
        Client *halt_prev, *halt_next;

        Client *group_prev, *group_next;
        UT_hash_handle hh;
};

static inline Slot *queue_slot(const Queue *q) {
        return q->client->slots + q->slot;
}

/* Whether the word that was written says hold. */
static inline bool queue_holds(const Queue *q) {
        return queue_slot(q)->word & PAGE_VERDICT_HOLD;
}

/* Makes all that RegisterClient needs. On success `ret_fds` holds the client's ends for the reply; the caller closes
 * them. -EDQUOT: the user's quota is used up. */
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

/* Called when the process is in another cgroup: moves the client and its queues to that group. Their usage so far stays
 * with the former group. A client in a job of root's stays in the job's group. */
int client_moved(Client *c);

/* Removes wishes that equal its unit's Environment=: the unit made them, not the process. Returns whether any was
 * removed. */
static inline bool client_forget_wish(Client *c, const Settings *environment) {
        return settings_forget_equal(&c->wish, environment);
}

/* Adds a hint of the process to its earlier wishes, and resolves its settings. The library sends the environment as a
 * hint, too. */
void client_wish(Client *c, const Settings *s);

/* "idle", "running", "held" or "suspended": the worst of its queues. */
QueueState client_state(const Client *c);

/* --- restart --- */

/* A client of the former service, without its queues. */
typedef struct ClientKept {
        uint64_t id;
        Page page;
        Ledger meta;
        int lifeline, wake;
        Group *group;
        const char *sender, *shim_version, *backend;
        Settings override, lowering, wish;
        UserUnits units;
        bool suspended;
} ClientKept;

#define CLIENT_KEPT_NULL ((ClientKept){.page = PAGE_NULL, .meta = LEDGER_NULL, .lifeline = -EBADF, .wake = -EBADF})

void client_kept_done(ClientKept *k);

/* Takes ownership of the peer and of the fds of `k`. */
int client_restore(Manager *m, Peer *peer, ClientKept *k, Client **ret);
