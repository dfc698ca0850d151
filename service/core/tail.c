/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Tails
 */

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <utlist.h>

#include "client.h"
#include "edges.h"
#include "ladder.h"
#include "tail.h"
#include "turn.h"
#include "user.h"

/* Between two looks at what a driver was told, at first; then twice that. */
#define TAIL_LOOK_NS (50 * NSEC_PER_USEC)

static void entity_tails_end(Entity *e, uint64_t at) {
        e->tail_look_at = e->tail_until = NSEC_INFINITY;
        if (!e->policy || !e->tail_awaited)
                return;
        e->tail_awaited = false;
        e->device->ops->entity_drained(e->policy, at);
        device_note_cause(e->device, at);
        device_touch(e->device);
        entity_tails_ended(e);
}

void tails_of_stopped(Entity *e, uint64_t at) {
        Device *d = e->device;

        e->tail_awaited = true;
        d->ops->entity_tail(e->policy, at);
        e->tail_until = now_ns() + POLICY_TAIL_MAX;
        d->review_at = MIN(d->review_at, e->tail_until);
        device_touch(d);
}

static void entity_begin_tail(Entity *e, uint64_t now) {
        e->n_tails++;
        if (!e->told_ready && !e->tail_awaited)
                tails_of_stopped(e, now);
}

static void entity_end_tail(Entity *e, uint64_t at) {
        if (--e->n_tails == 0)
                entity_tails_end(e, at);
}

void tail_begin(Queue *q) {
        if (q->tail || !q->entity || page_slot_read_in_flight(q->page_slot) == 0)
                return;
        q->tail = true;
        q->entity->n_tails++;
}

void tail_end(Queue *q, uint64_t at) {
        if (!q->tail)
                return;
        q->tail = false;
        entity_end_tail(q->entity, at);
}

void tail_end_of(Client *c) {
        uint64_t now = now_ns();

        for (uint32_t i = 0; i < c->n_slots; i++)
                if (c->slots[i])
                        tail_end(c->slots[i], now);
}

void tail_look(Queue *q, uint64_t at) {
        if (q->tail && page_slot_read_in_flight(q->page_slot) == 0)
                tail_end(q, at);
}

void tail_join(Queue *q) {
        if (q->holds)
                tail_begin(q);
}

void tail_leave(Queue *q) {
        tail_end(q, now_ns());
}

/* Nobody says when a driver has done what it was told; how long that takes is known. */
static void look_later(Entity *e, uint64_t now) {
        e->tail_look_at = now + e->tail_look_ns;
        e->tail_look_ns = MIN(2 * e->tail_look_ns, (uint64_t) LADDER_IGNORED_NS);
        e->device->review_at = MIN(e->device->review_at, e->tail_look_at);
}

void tail_settle(Entity *e, uint64_t now) {
        if (!e->policy || !e->tail_awaited)
                return;
        if (e->n_tails == 0 || e->grant.verdict != VERDICT_HOLD) {
                entity_tails_end(e, now);
                return;
        }
        if (e->choice.level < LEVEL_DEQUEUE || e->tail_look_at != NSEC_INFINITY)
                return;
        e->tail_look_ns = MAX(e->device->costs.hold_ns, (uint64_t) TAIL_LOOK_NS);
        look_later(e, now);
}

void tail_review(Entity *e, uint64_t now) {
        Queue *q, *tmp;
        bool all = now >= e->tail_until;

        if (now < e->tail_look_at && !all)
                return;
        e->tail_look_at = NSEC_INFINITY;
        if (all)
                e->tail_until = NSEC_INFINITY; /* remnants have times of their own */
        DL_FOREACH_SAFE2(e->queues, q, tmp, entity_next)
                if (q->tail && (all || ladder_queue_is_off(q)))
                        tail_end(q, now);
        if (e->n_tails > 0 && e->tail_awaited && !all)
                look_later(e, now);
}

/* --- of queues that are gone --- */

typedef struct Remnant Remnant;

struct Remnant {
        Entity *entity;
        uid_t user;
        pid_t pid;
        uint64_t start_time;
        int pidfd;
        uint64_t until;
        sd_event_source *pidfd_source, *timer;
        Remnant *prev, *next; /* of the entity's list */
};

static Remnant *remnant_done(Remnant *r) {
        if (!r)
                return NULL;
        sd_event_source_disable_unref(r->pidfd_source);
        sd_event_source_disable_unref(r->timer);
        safe_close(r->pidfd);
        free(r);
        return NULL;
}
DEFINE_TRIVIAL_CLEANUP_FUNC(Remnant *, remnant_done);

/* Its entity goes with it when that has nothing else, and so does its group. */
static void remnant_end(Remnant *r, uint64_t now) {
        Entity *e = r->entity;
        Device *d = e->device;
        Group *g = e->group;

        DL_DELETE(e->remnants, r);
        user_give(d->manager, r->user, USER_QUEUES);
        remnant_done(r);
        device_touch(d);
        entity_end_tail(e, now);
        if (entity_gc(e))
                return;
        d->used_at = now;
        d->manager->devices_left |= d->n_queues == 0;
        group_left(g);
}

void remnants_expire(Entity *e, uint64_t now) {
        Remnant *r = e->remnants;

        while (r) {
                Remnant *next = r->next;

                if (now >= r->until)
                        remnant_end(r, now); /* while there is a next one the entity stays */
                r = next;
        }
}

static int on_end(Remnant *r) {
        remnant_end(r, now_ns());
        return 0;
}

static int on_timer(sd_event_source *s, uint64_t usec, void *userdata) {
        return on_end(userdata);
}

static int on_pidfd(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        return on_end(userdata);
}

static int remnant_set_time(const Remnant *r) {
        int k = sd_event_source_set_time(r->timer, DIV_ROUND_UP(r->until, NSEC_PER_USEC));

        return k < 0 ? k : sd_event_source_set_enabled(r->timer, SD_EVENT_ONESHOT);
}

static int remnant_watch(Remnant *r, sd_event *event) {
        int k = sd_event_add_time(event, &r->timer, CLOCK_MONOTONIC, UINT64_MAX, 1, on_timer, r);

        if (k >= 0)
                k = remnant_set_time(r);
        if (k >= 0)
                k = sd_event_add_io(event, &r->pidfd_source, r->pidfd, EPOLLIN, on_pidfd, r);
        if (k < 0)
                return k;
        (void) sd_event_source_set_description(r->timer, "remnant's end");
        (void) sd_event_source_set_description(r->pidfd_source, "remnant's process");
        (void) sd_event_source_set_priority(r->timer, PRIORITY_EDGES);
        return sd_event_source_set_priority(r->pidfd_source, PRIORITY_EDGES);
}

static int remnant_new(const Queue *q, uint64_t until, Remnant **ret) {
        const Client *c = q->client;
        _cleanup_(remnant_donep)
        Remnant *r = calloc(1, sizeof(*r));

        if (!r)
                return -ENOMEM;
        *r = (Remnant){
                        .entity = q->entity,
                        .user = c->user->uid,
                        .pid = c->peer.pid,
                        .start_time = c->peer.start_time,
                        .pidfd = fcntl(c->peer.pidfd, F_DUPFD_CLOEXEC, 3),
                        .until = until,
        };
        if (r->pidfd < 0)
                return negative_errno();
        int k = remnant_watch(r, c->manager->event);
        if (k < 0)
                return k;
        *ret = TAKE_PTR(r);
        return 0;
}

static bool has_ended(const Client *c) {
        struct pollfd p = {.fd = c->peer.pidfd, .events = POLLIN};

        return c->peer.pidfd < 0 || poll(&p, 1, 0) != 0;
}

static bool leaves_something(const Queue *q) {
        uint32_t untracked = atomic_load_explicit(&q->page_slot->outstanding, memory_order_relaxed) &
                        PAGE_OUTSTANDING_UNTRACKED;

        return page_slot_read_in_flight(q->page_slot) > (untracked ? 1U : 0U);
}

static Remnant *remnant_find(const Entity *e, const Client *c) {
        Remnant *r;

        DL_FOREACH(e->remnants, r)
                if (r->pid == c->peer.pid && r->start_time == c->peer.start_time)
                        return r;
        return NULL;
}

bool remnant_begin(Queue *q) {
        Client *c = q->client;
        Remnant *r;

        if (c->manager->stopping || !q->entity || !leaves_something(q) || has_ended(c))
                return false;
        edge_look(q); /* it may have launched just now */

        Entity *e = q->entity;
        uint64_t now = now_ns(), until = now + REMNANT_MAX_NS;

        if (!e->policy)
                return false;
        r = remnant_find(e, c);
        if (r) {
                r->until = until;
                (void) remnant_set_time(r);
                return false;
        }
        if (remnant_new(q, until, &r) < 0)
                return false;
        DL_APPEND(e->remnants, r);
        entity_begin_tail(e, now);
        return true;
}

void remnants_forget_client(const Client *c) {
        Entity *e;

        DL_FOREACH2(c->group->entities, e, group_next)
                if (e->client == c)
                        e->client = NULL;
}

void remnants_free(Manager *m) {
        Device *d, *tmp;

        HASH_ITER(hh, m->devices, d, tmp)
                while (d->entities)
                        remnant_end(d->entities->remnants, now_ns());
}
