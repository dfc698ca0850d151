/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Priority claims
 */

#include <fcntl.h>
#include <utlist.h>

#include "claim.h"
#include "common/time-util.h"
#include "numbers.h"
#include "resolve.h"
#include "service/settings/xsched-conf.h"
#include "turn.h"
#include "user.h"

/* Limit of one step: after this time it begins no further object. */
#define STEP_NS (30 * NSEC_PER_USEC)

#define PID_BITS 22U /* PID_MAX_LIMIT */

/* A process that has claims. */
typedef struct ClaimedProcess {
        uint64_t key;
        Claim *claims; /* list: the newest first */
        UT_hash_handle hh;
} ClaimedProcess;

/* The start time is in clock ticks since boot, which leaves PID_BITS bits free. */
static uint64_t process_key(pid_t pid, uint64_t start_time) {
        return start_time << PID_BITS | (uint64_t) pid;
}

static ClaimedProcess *claimed_process_find(const Manager *m, pid_t pid, uint64_t start_time) {
        const uint64_t key = process_key(pid, start_time);
        ClaimedProcess *p;

        HASH_FIND(hh, m->claims.processes, &key, sizeof(key), p);
        return p;
}

static int claim_index(Claim *h) {
        Manager *m = h->manager;
        ClaimedProcess *p = claimed_process_find(m, h->pid, h->start_time);

        if (!p) {
                p = calloc(1, sizeof(*p));
                if (!p)
                        return -ENOMEM;
                p->key = process_key(h->pid, h->start_time);
                HASH_ADD(hh, m->claims.processes, key, sizeof(p->key), p);
        }
        DL_PREPEND2(p->claims, h, process_prev, process_next);
        h->process = p;
        m->claims.n_for_descendants += h->descendants;
        return 0;
}

static void claim_unindex(Claim *h) {
        ClaimedProcess *p = TAKE_PTR(h->process);
        Manager *m = h->manager;

        if (!p)
                return;
        m->claims.n_for_descendants -= h->descendants;
        DL_DELETE2(p->claims, h, process_prev, process_next);
        if (p->claims)
                return;
        HASH_DEL(m->claims.processes, p);
        free(p);
}

/* --- the clients that a claim is for --- */

/* A claim reaches only descendants of the same user: programs that run with other rights are not its user's. */
static bool reaches_descendant(const Claim *h, const Peer *peer) {
        return h->descendants && (h->uid == 0 || peer->uid == h->uid);
}

static bool is_of(const Claim *h, const Peer *peer) {
        return h->pid == peer->pid && h->start_time == peer->start_time;
}

/* The newest of each kind. */
static void find_at(const ClaimedProcess *p, const Peer *peer, bool is_itself, Claim *found[static _CLAIM_KIND_MAX]) {
        Claim *h;

        DL_FOREACH2(p->claims, h, process_next) {
                if (!is_itself && !reaches_descendant(h, peer))
                        continue;
                if (!found[h->kind] || found[h->kind]->id < h->id)
                        found[h->kind] = h;
        }
}

static void find_claims(const Client *c, Claim *found[static _CLAIM_KIND_MAX]) {
        const ClaimedProcess *p = claimed_process_find(c->manager, c->peer.pid, c->peer.start_time);

        if (p)
                find_at(p, &c->peer, true, found);
        for (unsigned i = 1; i < c->ancestors.n && c->manager->claims.n_for_descendants > 0; i++) {
                p = claimed_process_find(c->manager, c->ancestors.list[i].pid, c->ancestors.list[i].start_time);
                if (p)
                        find_at(p, &c->peer, false, found);
        }
}

static void unlist_client(Client *c, ClaimKind kind) {
        Claim *h = TAKE_PTR(c->claimed_by[kind].claim);

        if (h)
                DL_DELETE2(h->clients, c, claimed_by[kind].prev, claimed_by[kind].next);
}

/* Returns whether the client's settings have changed. */
static bool client_set_claim(Client *c, ClaimKind kind, Claim *h) {
        const Settings none = SETTINGS_NULL, *s = h ? &h->settings : &none;
        Settings *to = kind == CLAIM_LOWERS ? &c->claim_lowers : &c->claim;

        unlist_client(c, kind);
        if (h) {
                c->claimed_by[kind].claim = h;
                DL_APPEND2(h->clients, c, claimed_by[kind].prev, claimed_by[kind].next);
        }
        if (settings_is_equal(s, to))
                return false;
        *to = *s;
        return true;
}

void claims_join(Client *c) {
        Claim *found[_CLAIM_KIND_MAX] = {};

        if (c->manager->claims.n_for_descendants > 0)
                while (ancestors_read(&c->ancestors, &c->peer))
                        turn_look(c->manager);
        find_claims(c, found);
        for (ClaimKind kind = 0; kind < _CLAIM_KIND_MAX; kind++)
                (void) client_set_claim(c, kind, found[kind]);
}

void claims_leave(Client *c) {
        for (ClaimKind kind = 0; kind < _CLAIM_KIND_MAX; kind++)
                unlist_client(c, kind);
        ancestors_done(&c->ancestors);
}

/* --- steps --- */

static void client_changed(ClaimStep *s, Client *c) {
        client_own_settings_changed(c);
        *s = (ClaimStep){.client = c->id};
}

/* Resolves the client's next queue. Returns whether there was one. */
static bool step_queue(Manager *m, ClaimStep *s) {
        const Client *c = s->client != 0 ? client_find(m, s->client) : NULL;

        while (c && s->slot < c->n_slots && !c->slots[s->slot].queue)
                s->slot++;
        if (!c || s->slot >= c->n_slots) {
                s->client = 0;
                return false;
        }
        (void) queue_settings_changed(c->slots[s->slot++].queue);
        return true;
}

void claim_begin(ClaimBegin *b, Claim *h) {
        *b = (ClaimBegin){.claim = h};
        walk_begin(&b->walk, h->manager, WALK_CLIENTS);
}

void claim_begin_done(ClaimBegin *b) {
        walk_end(&b->walk);
}

/* A newer claim may have reached the client before. */
static void claim_give(ClaimBegin *b, Client *c) {
        Claim *h = b->claim;
        const Claim *has = c->claimed_by[h->kind].claim;

        if ((!has || has->id < h->id) && client_set_claim(c, h->kind, h))
                client_changed(&b->step, c);
}

/* Reads one ancestor, or finishes the client. Returns whether the client is finished. */
static bool claim_reach(ClaimBegin *b, Client *c) {
        const Claim *h = b->claim;
        bool is_own = is_of(h, &c->peer);

        if (!is_own && !reaches_descendant(h, &c->peer))
                return true;
        if (!is_own && ancestors_read(&c->ancestors, &c->peer))
                return false;
        if (is_own || ancestors_have(&c->ancestors, h->pid, h->start_time))
                claim_give(b, c);
        return true;
}

/* Does one file, one client or one queue. Returns whether there is more. */
static bool claim_begin_one(ClaimBegin *b) {
        Manager *m = b->claim->manager;

        if (step_queue(m, &b->step))
                return true;
        Client *c = b->reaching != 0 ? client_find(m, b->reaching) : NULL;
        if (!c)
                c = walk_next(&b->walk);
        if (!c)
                return false;
        b->reaching = claim_reach(b, c) ? 0 : c->id;
        return true;
}

bool claim_begin_step(ClaimBegin *b) {
        Manager *m = b->claim->manager;
        uint64_t until = now_ns() + STEP_NS;
        bool more;

        do {
                more = claim_begin_one(b);
                turn_look(m);
        } while (more && now_ns() < until);
        return more;
}

/* --- life --- */

static Claim *claim_free(Claim *h) {
        if (!h)
                return NULL;
        claim_unindex(h);
        while (h->clients)
                unlist_client(h->clients, h->kind);
        sd_event_source_disable_unref(h->source);
        safe_close(h->fd);
        free(h->command);
        free(h->reason);
        free(h);
        return NULL;
}
DEFINE_TRIVIAL_CLEANUP_FUNC(Claim *, claim_free);

/* Gives one client of an ended claim the next claim in force for it. Returns whether there is more. */
static bool claim_end_one(Claim *h) {
        Claim *found[_CLAIM_KIND_MAX] = {};

        if (step_queue(h->manager, &h->step))
                return true;
        Client *c = h->clients;
        if (!c)
                return false;
        find_claims(c, found);
        if (client_set_claim(c, h->kind, found[h->kind]))
                client_changed(&h->step, c);
        return true;
}

static void claim_ended(Claim *h) {
        Manager *m = h->manager;

        DL_DELETE(m->claims.ended, h);
        user_give(m, h->user, USER_JOBS);
        (void) claim_free(h);
}

static int on_ended(sd_event_source *s, void *userdata) {
        Manager *m = userdata;
        Claim *h = m->claims.ended;
        uint64_t began = now_ns(), now;
        bool more;

        do {
                more = claim_end_one(h);
                turn_look(m);
                now = now_ns();
        } while (more && now < began + STEP_NS);
        user_pay_change(m, h->user, now, now - began);
        if (!more)
                claim_ended(h);
        if (!m->claims.ended)
                (void) sd_event_source_set_enabled(s, SD_EVENT_OFF);
        return 0;
}

static int on_hang_up(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        Claim *h = userdata;
        Manager *m = h->manager;

        h->source = sd_event_source_disable_unref(h->source);
        claim_unindex(h);
        walks_forget(m, WALK_CLAIMS, h);
        DL_DELETE(m->claims.all, h);
        DL_APPEND(m->claims.ended, h);
        (void) sd_event_source_set_enabled(m->claims.source, SD_EVENT_ON);
        return 0;
}

static int claim_watch(Claim *h) {
        Manager *m = h->manager;
        int r = 0;

        if (!m->claims.source) {
                r = sd_event_add_defer(m->event, &m->claims.source, on_ended, m);
                if (r >= 0)
                        r = sd_event_source_set_enabled(m->claims.source, SD_EVENT_OFF);
                if (r >= 0)
                        r = sd_event_source_set_priority(m->claims.source, PRIORITY_CALLS);
                (void) sd_event_source_set_description(m->claims.source, "claims-ended");
        }
        /* No EPOLLIN: data that the other end writes stays unread. A hang-up is always reported. */
        if (r >= 0)
                r = sd_event_add_io(m->event, &h->source, h->fd, 0, on_hang_up, h);
        if (r >= 0)
                (void) sd_event_source_set_description(h->source, "claim");
        return r;
}

static int claim_make(Manager *m, const Peer *peer, const ClaimParameters *p, Claim **ret) {
        _cleanup_(claim_freep)
        Claim *h = calloc(1, sizeof(*h));

        if (!h)
                return -ENOMEM;
        *h = (Claim){
                        .manager = m,
                        .id = m->claims.next_id,
                        .pid = peer->pid,
                        .start_time = peer->start_time,
                        .uid = peer->uid,
                        .user = user_of(m, peer->uid),
                        .command = strdup(peer->command),
                        .settings = p->settings,
                        .kind = p->lowers ? CLAIM_LOWERS : CLAIM_DECIDES,
                        .descendants = p->descendants,
                        .reason = strdup(strempty(p->reason)),
                        .fd = -EBADF,
        };
        if (!h->command || !h->reason)
                return -ENOMEM;
        *ret = TAKE_PTR(h);
        return 0;
}

int claim_new(Manager *m, const Peer *peer, const ClaimParameters *p, Claim **ret, int *ret_fd) {
        _cleanup_(claim_freep)
        Claim *h = NULL;
        _cleanup_close_ int theirs = -EBADF;
        int fds[2];

        int r = claim_make(m, peer, p, &h);
        if (r < 0)
                return r;
        if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
                return negative_errno();
        h->fd = fds[0];
        theirs = fds[1];
        r = claim_watch(h);
        if (r >= 0)
                r = claim_index(h);
        if (r >= 0)
                r = user_take(m, h->user, USER_JOBS, m->config->limits.jobs_per_user);
        if (r < 0)
                return r;
        m->claims.next_id++;
        DL_PREPEND(m->claims.all, h);
        *ret = TAKE_PTR(h);
        *ret_fd = TAKE_FD(theirs);
        return 0;
}

static void free_list(Manager *m, Claim **list) {
        while (*list) {
                Claim *h = *list;
                DL_DELETE(*list, h);
                user_give(m, h->user, USER_JOBS);
                (void) claim_free(h);
        }
}

void claims_free(Manager *m) {
        free_list(m, &m->claims.all);
        free_list(m, &m->claims.ended);
        m->claims.source = sd_event_source_disable_unref(m->claims.source);
}
