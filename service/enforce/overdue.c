/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Overdue
 */

#include <utlist.h>

#include "overdue.h"
#include "privileged.h"
#include "service/core/ladder.h"
#include "service/core/turn.h"
#include "service/settings/xsched-conf.h"

/* Returns the time between two looks: the second look is due when FreezeAfter= is over. 0: no unit is frozen for a
 * hold. */
static uint64_t look_interval(const Entity *e) {
        const Classes *classes = &e->device->manager->config->classes;

        if (!classes->any_freeze)
                return 0;
        const Class *c = classes_find(classes, e->group->resolved.class);
        return c && c->freeze ? c->freeze_after_us * NSEC_PER_USEC / 2 : 0;
}

static void look_at(Entity *e, uint64_t at) {
        e->overdue.look_at = at;
        entity_review_by(e, at);
}

static void begin_to_look(Entity *e, uint64_t now) {
        uint64_t interval = look_interval(e);

        e->overdue.looked = false;
        if (interval > 0)
                look_at(e, now + interval);
}

static bool set_overdue(Entity *e, bool overdue) {
        bool changed = e->overdue.is != overdue;

        e->overdue.is = overdue;
        return changed;
}

bool overdue_set_held(Entity *e, bool held, uint64_t now) {
        e->overdue.look_at = NSEC_INFINITY;
        if (!held)
                return set_overdue(e, false);
        begin_to_look(e, now);
        return false;
}

void overdue_ready_while_held(Entity *e) {
        if (!e->overdue.is && e->overdue.look_at == NSEC_INFINITY)
                begin_to_look(e, now_ns());
}

void overdue_reconsider(Group *g) {
        Entity *e;

        DL_FOREACH2(g->entities, e, group_next) {
                if (e->held_since == 0)
                        continue;
                if (look_interval(e) == 0) {
                        e->overdue.look_at = NSEC_INFINITY;
                        e->overdue.is = false;
                } else if (!e->overdue.is && e->overdue.look_at == NSEC_INFINITY) {
                        begin_to_look(e, now_ns());
                        device_touch(e->device);
                }
        }
}

/* Whether the queue has launches in flight. A queue that is taken off the device counts as drained. */
static bool queue_is_busy(const Queue *q) {
        if (ladder_queue_is_off(q) || (q->privileged && privileged_state(q->client) == PRIVILEGED_HELD))
                return false;
        return ladder_queue_drain(q) > 0;
}

static void look(const Entity *e, bool *ret_busy, uint64_t *ret_launches) {
        const Queue *q;

        *ret_busy = false;
        *ret_launches = 0;
        DL_FOREACH2(e->queues, q, entity_next) {
                *ret_busy |= queue_is_busy(q);
                *ret_launches += atomic_load_explicit(&q->page_slot->submitted, memory_order_relaxed);
        }
}

bool overdue_look(Entity *e, uint64_t now) {
        uint64_t interval, launches;
        bool busy;

        if (now < e->overdue.look_at)
                return false;
        e->overdue.look_at = NSEC_INFINITY;
        interval = look_interval(e);
        if (interval == 0)
                return false;
        look(e, &busy, &launches);
        bool late = e->overdue.looked && ((busy && e->overdue.busy) || launches > e->overdue.launches);
        bool again = !late && (busy || !e->overdue.looked);
        e->overdue.looked = again;
        e->overdue.busy = busy;
        e->overdue.launches = launches;
        if (again)
                look_at(e, now + interval);
        return set_overdue(e, late);
}

bool group_is_overdue(const Group *g) {
        const Entity *e;

        DL_FOREACH2(g->entities, e, group_next)
                if (e->overdue.is)
                        return true;
        return false;
}
