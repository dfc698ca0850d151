/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Remnants
 */

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <utlist.h>

#include "edges.h"
#include "remnant.h"
#include "tail.h"
#include "turn.h"
#include "user.h"

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

/* Frees the entity and its group, too, if they have nothing else. */
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
                        remnant_end(r, now); /* `next`, if there is one, keeps the entity */
                r = next;
        }
}

static int on_timer(sd_event_source *s, uint64_t usec, void *userdata) {
        const Remnant *r = userdata;

        remnants_expire(r->entity, MAX(now_ns(), r->until));
        return 0;
}

static int on_pidfd(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        remnant_end(userdata, now_ns());
        return 0;
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
        edge_look(q); /* the queue may have launched since the last look */

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
