/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Laxity (LAX of XSched, Shen et al., OSDI 2025): a low priority while there is time, and a high one when there is none
 *
 * Least laxity first (Dertouzos and Mok, "Multiprocessor On-Line Scheduling of Hard-Real-Time Tasks", 1989) needs to
 * know how long work takes, and switches for ever between entities of equal laxity. So here the laxity is a setting
 * with one threshold: for PolicySettings.laxity_us after it became ready an entity has its priority; after that, until
 * it is idle, its critical priority, if that is higher. If others are in the way, the device asks to be called at that
 * very time.
 *
 * An entity without a laxity has its priority. Equals take turns of a time slice.
 */

#include "core.h"

static void lax_level(Order *o, OrderEntity *e) {
        const PolicySettings *s = e->settings;
        uint64_t critical_ns = ns_add(e->since_ns, s->laxity_us * NSEC_PER_USEC);
        bool lax = !e->here || s->laxity_us == 0 || o->now_ns < critical_ns;

        e->level = lax ? s->priority : MAX(s->priority, s->critical);
        e->alarm_ns = e->here && s->laxity_us > 0 && lax ? critical_ns : NSEC_INFINITY;
}

static void lax_enqueue(Order *o, OrderEntity *e) {
        e->since_ns = o->now_ns;
        lax_level(o, e);
}

DEFINE_POLICY(lax, "Highest priority first, which rises when a group's laxity is used up", .hint = lax_level,
                .enqueue = lax_enqueue, .dequeue = lax_level, .tick = lax_level);
