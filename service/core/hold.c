/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Priority holds
 */

#include <fcntl.h>
#include <utlist.h>

#include "common/time-util.h"
#include "hold.h"
#include "service/settings/config.h"
#include "turn.h"
#include "user.h"

/* A step: beyond this no further object is begun. */
#define STEP_NS (30 * NSEC_PER_USEC)

#define PID_BITS 22U /* PID_MAX_LIMIT */

/* A process that there are holds for. */
typedef struct HeldProcess {
        uint64_t key;
        Hold *holds; /* list: the newest first */
        UT_hash_handle hh;
} HeldProcess;

/* Clock ticks since the system was started leave room for it. */
static uint64_t process_key(pid_t pid, uint64_t start_time) {
        return start_time << PID_BITS | (uint64_t) pid;
}

static HeldProcess *held_process_find(const Manager *m, pid_t pid, uint64_t start_time) {
        const uint64_t key = process_key(pid, start_time);
        HeldProcess *p;

        HASH_FIND(hh, m->holds.processes, &key, sizeof(key), p);
        return p;
}

static int hold_index(Hold *h) {
        Manager *m = h->manager;
        HeldProcess *p = held_process_find(m, h->pid, h->start_time);

        if (!p) {
                p = calloc(1, sizeof(*p));
                if (!p)
                        return -ENOMEM;
                p->key = process_key(h->pid, h->start_time);
                HASH_ADD(hh, m->holds.processes, key, sizeof(p->key), p);
        }
        DL_PREPEND2(p->holds, h, process_prev, process_next);
        h->process = p;
        m->holds.n_for_descendants += h->descendants;
        return 0;
}

static void hold_unindex(Hold *h) {
        HeldProcess *p = TAKE_PTR(h->process);
        Manager *m = h->manager;

        if (!p)
                return;
        m->holds.n_for_descendants -= h->descendants;
        DL_DELETE2(p->holds, h, process_prev, process_next);
        if (p->holds)
                return;
        HASH_DEL(m->holds.processes, p);
        free(p);
}

/* --- whom it is for --- */

/* What a user starts with other rights is not his. */
static bool reaches_descendant(const Hold *h, const Peer *peer) {
        return h->descendants && (h->uid == 0 || peer->uid == h->uid);
}

static bool is_of(const Hold *h, const Peer *peer) {
        return h->pid == peer->pid && h->start_time == peer->start_time;
}

/* The newest of each kind. */
static void find_at(
                const HeldProcess *p, const Peer *peer, bool is_itself, Hold *found[static _HOLD_KIND_MAX]) {
        Hold *h;

        DL_FOREACH2(p->holds, h, process_next) {
                if (!is_itself && !reaches_descendant(h, peer))
                        continue;
                if (!found[h->kind] || found[h->kind]->id < h->id)
                        found[h->kind] = h;
        }
}

static void find_holds(const Client *c, Hold *found[static _HOLD_KIND_MAX]) {
        const HeldProcess *p = held_process_find(c->manager, c->peer.pid, c->peer.start_time);

        if (p)
                find_at(p, &c->peer, true, found);
        for (unsigned i = 1; i < c->ancestors.n && c->manager->holds.n_for_descendants > 0; i++) {
                p = held_process_find(c->manager, c->ancestors.list[i].pid, c->ancestors.list[i].start_time);
                if (p)
                        find_at(p, &c->peer, false, found);
        }
}

static void unlist_client(Client *c, HoldKind kind) {
        Hold *h = TAKE_PTR(c->held_by[kind].hold);

        if (h)
                DL_DELETE2(h->clients, c, held_by[kind].prev, held_by[kind].next);
}

/* Returns whether its settings are others now. */
static bool client_set_hold(Client *c, HoldKind kind, Hold *h) {
        const Settings none = SETTINGS_NULL, *s = h ? &h->settings : &none;
        Settings *to = kind == HOLD_LOWERS ? &c->hold_lowers : &c->hold;

        unlist_client(c, kind);
        if (h) {
                c->held_by[kind].hold = h;
                DL_APPEND2(h->clients, c, held_by[kind].prev, held_by[kind].next);
        }
        if (settings_is_equal(s, to))
                return false;
        *to = *s;
        return true;
}

void holds_join(Client *c) {
        Hold *found[_HOLD_KIND_MAX] = {};

        if (c->manager->holds.n_for_descendants > 0)
                while (ancestors_read(&c->ancestors, &c->peer))
                        turn_look(c->manager);
        find_holds(c, found);
        for (HoldKind kind = 0; kind < _HOLD_KIND_MAX; kind++)
                (void) client_set_hold(c, kind, found[kind]);
}

void holds_leave(Client *c) {
        for (HoldKind kind = 0; kind < _HOLD_KIND_MAX; kind++)
                unlist_client(c, kind);
        ancestors_done(&c->ancestors);
}

/* --- steps --- */

static void client_changed(HoldStep *s, Client *c) {
        client_own_settings_changed(c);
        *s = (HoldStep){.client = c->id};
}

/* The next queue of the client. Returns whether there was one. */
static bool step_queue(Manager *m, HoldStep *s) {
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

void hold_begin(HoldBegin *b, Hold *h) {
        *b = (HoldBegin){.hold = h};
        walk_begin(&b->walk, h->manager, WALK_CLIENTS);
}

void hold_begin_done(HoldBegin *b) {
        walk_end(&b->walk);
}

/* A newer one came to it before. */
static void hold_give(HoldBegin *b, Client *c) {
        Hold *h = b->hold;
        const Hold *has = c->held_by[h->kind].hold;

        if ((!has || has->id < h->id) && client_set_hold(c, h->kind, h))
                client_changed(&b->step, c);
}

/* One ancestor, or the rest. Returns whether the client is through. */
static bool hold_reach(HoldBegin *b, Client *c) {
        const Hold *h = b->hold;
        bool is_own = is_of(h, &c->peer);

        if (!is_own && !reaches_descendant(h, &c->peer))
                return true;
        if (!is_own && ancestors_read(&c->ancestors, &c->peer))
                return false;
        if (is_own || ancestors_have(&c->ancestors, h->pid, h->start_time))
                hold_give(b, c);
        return true;
}

/* One file, one client or one queue. Returns whether there is more. */
static bool hold_begin_one(HoldBegin *b) {
        Manager *m = b->hold->manager;

        if (step_queue(m, &b->step))
                return true;
        Client *c = b->reaching != 0 ? client_find(m, b->reaching) : NULL;
        if (!c)
                c = walk_next(&b->walk);
        if (!c)
                return false;
        b->reaching = hold_reach(b, c) ? 0 : c->id;
        return true;
}

bool hold_begin_step(HoldBegin *b) {
        Manager *m = b->hold->manager;
        uint64_t until = now_ns() + STEP_NS;
        bool more;

        do {
                more = hold_begin_one(b);
                turn_look(m);
        } while (more && now_ns() < until);
        return more;
}

/* --- life --- */

static Hold *hold_free(Hold *h) {
        if (!h)
                return NULL;
        hold_unindex(h);
        while (h->clients)
                unlist_client(h->clients, h->kind);
        sd_event_source_disable_unref(h->source);
        safe_close(h->fd);
        free(h->command);
        free(h->reason);
        free(h);
        return NULL;
}
DEFINE_TRIVIAL_CLEANUP_FUNC(Hold *, hold_free);

/* A client of one that has ended has what another gives it. Returns whether there is more. */
static bool hold_end_one(Hold *h) {
        Hold *found[_HOLD_KIND_MAX] = {};

        if (step_queue(h->manager, &h->step))
                return true;
        Client *c = h->clients;
        if (!c)
                return false;
        find_holds(c, found);
        if (client_set_hold(c, h->kind, found[h->kind]))
                client_changed(&h->step, c);
        return true;
}

static void hold_ended(Hold *h) {
        Manager *m = h->manager;

        DL_DELETE(m->holds.ended, h);
        user_give(m, h->user, USER_JOBS);
        (void) hold_free(h);
}

static int on_ended(sd_event_source *s, void *userdata) {
        Manager *m = userdata;
        Hold *h = m->holds.ended;
        uint64_t began = now_ns(), now;
        bool more;

        do {
                more = hold_end_one(h);
                turn_look(m);
                now = now_ns();
        } while (more && now < began + STEP_NS);
        user_pay_change(m, h->user, now, now - began);
        if (!more)
                hold_ended(h);
        if (!m->holds.ended)
                (void) sd_event_source_set_enabled(s, SD_EVENT_OFF);
        return 0;
}

static int on_hang_up(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        Hold *h = userdata;
        Manager *m = h->manager;

        h->source = sd_event_source_disable_unref(h->source);
        hold_unindex(h);
        walks_forget(m, WALK_HOLDS, h);
        DL_DELETE(m->holds.all, h);
        DL_APPEND(m->holds.ended, h);
        (void) sd_event_source_set_enabled(m->holds.source, SD_EVENT_ON);
        return 0;
}

static int hold_watch(Hold *h) {
        Manager *m = h->manager;
        int r = 0;

        if (!m->holds.source) {
                r = sd_event_add_defer(m->event, &m->holds.source, on_ended, m);
                if (r >= 0)
                        r = sd_event_source_set_enabled(m->holds.source, SD_EVENT_OFF);
                if (r >= 0)
                        r = sd_event_source_set_priority(m->holds.source, PRIORITY_CALLS);
                (void) sd_event_source_set_description(m->holds.source, "holds-ended");
        }
        /* No EPOLLIN: what somebody writes there stays there. The hang-up is always reported. */
        if (r >= 0)
                r = sd_event_add_io(m->event, &h->source, h->fd, 0, on_hang_up, h);
        if (r >= 0)
                (void) sd_event_source_set_description(h->source, "hold");
        return r;
}

static int hold_make(Manager *m, const Peer *peer, const HoldParameters *p, Hold **ret) {
        _cleanup_(hold_freep)
        Hold *h = calloc(1, sizeof(*h));

        if (!h)
                return -ENOMEM;
        *h = (Hold){
                        .manager = m,
                        .id = m->holds.next_id,
                        .pid = peer->pid,
                        .start_time = peer->start_time,
                        .uid = peer->uid,
                        .user = user_of(m, peer->uid),
                        .command = strdup(peer->command),
                        .settings = p->settings,
                        .kind = p->lowers ? HOLD_LOWERS : HOLD_DECIDES,
                        .descendants = p->descendants,
                        .reason = strdup(strempty(p->reason)),
                        .fd = -EBADF,
        };
        if (!h->command || !h->reason)
                return -ENOMEM;
        *ret = TAKE_PTR(h);
        return 0;
}

int hold_new(Manager *m, const Peer *peer, const HoldParameters *p, Hold **ret, int *ret_fd) {
        _cleanup_(hold_freep)
        Hold *h = NULL;
        _cleanup_close_ int theirs = -EBADF;
        int fds[2];

        int r = hold_make(m, peer, p, &h);
        if (r < 0)
                return r;
        if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
                return negative_errno();
        h->fd = fds[0];
        theirs = fds[1];
        r = hold_watch(h);
        if (r >= 0)
                r = hold_index(h);
        if (r >= 0)
                r = user_take(m, h->user, USER_JOBS, m->config->limits.jobs_per_user);
        if (r < 0)
                return r;
        m->holds.next_id++;
        DL_PREPEND(m->holds.all, h);
        *ret = TAKE_PTR(h);
        *ret_fd = TAKE_FD(theirs);
        return 0;
}

static void free_list(Manager *m, Hold **list) {
        while (*list) {
                Hold *h = *list;
                DL_DELETE(*list, h);
                user_give(m, h->user, USER_JOBS);
                (void) hold_free(h);
        }
}

void holds_free(Manager *m) {
        free_list(m, &m->holds.all);
        free_list(m, &m->holds.ended);
        m->holds.source = sd_event_source_disable_unref(m->holds.source);
}
