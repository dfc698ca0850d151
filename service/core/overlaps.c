/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Overlaps of a device
 */

#include <utlist.h>

#include "client.h"
#include "overlaps.h"

/* --- what the runner gets done --- */

/* Length of `n` launches of the queue; 0: unknown. */
static uint64_t queue_length(const Queue *q, uint64_t n) {
        uint32_t mean_ns = atomic_load_explicit(&q->page_slot->mean_ns, memory_order_relaxed);
        uint64_t ns = costs_drain(n, mean_ns);

        return ns == PREEMPTION_UNKNOWN ? 0 : ns;
}

/* Launches that have completed since the last call. */
static uint64_t queue_take_done(Queue *q) {
        uint64_t done = atomic_load_explicit(&q->page_slot->completed, memory_order_relaxed), n = ns_sub(done, q->done);

        q->done = done;
        return n;
}

/* *ret_rest_ns: the length of a launch in progress; 0: there is none. */
static uint64_t runner_take_done(const Entity *r, uint64_t *ret_rest_ns) {
        uint64_t sum = 0, rest = 0;
        Queue *q;

        if (r && r->n_queues <= OVERLAP_QUEUES_MAX)
                DL_FOREACH2(r->queues, q, entity_next) {
                        uint64_t one = page_slot_read_in_flight(q->page_slot) > 0 ? queue_length(q, 1) : 0;

                        sum = ns_add(sum, queue_length(q, queue_take_done(q)));
                        rest = MAX(rest, one);
                }
        *ret_rest_ns = rest;
        return sum;
}

static const Entity *find_runner(const Entity *of) {
        PolicyWait w;

        if (!of || !of->policy || !of->device->ops->entity_wait(of->policy, &w) || !w.runner)
                return NULL;
        const Entity *r = w.runner;
        return r != of && r->told_ready && r->grant.verdict == VERDICT_RUN ? r : NULL;
}

void overlaps_note_runner(Device *d) {
        uint64_t rest;

        d->overlap_runner = find_runner(d->overlaps);
        (void) runner_take_done(d->overlap_runner, &rest);
        d->overlap_at = d->overlap_runner ? overlap_look_at(&d->overlaps->overlap) : NSEC_INFINITY;
}

void overlaps_forget_runner(const Entity *e) {
        if (e->device->overlap_runner == e)
                e->device->overlap_runner = NULL;
}

/* --- division --- */

/* Without a runner the time is the tail's. */
static void divide(Entity *e, bool ended, uint64_t at) {
        Device *d = e->device;
        uint64_t rest, done = runner_take_done(d->overlap_runner, &rest),
                       had = overlap_divide(&e->overlap, done, rest, ended, at);

        if (d->overlap_runner && e->policy)
                d->ops->entity_tail_had(e->policy, had, at);
}

void overlaps_begin(Entity *e, uint64_t own_ns) {
        Device *d = e->device;

        if (e->overlaps || d->config.concurrency > 1)
                return;
        overlaps_forget_runner(e);
        e->overlaps = true;
        overlap_begin(&e->overlap, own_ns, d->decided_at);
        DL_APPEND2(d->overlaps, e, overlaps_prev, overlaps_next);
}

/* The next has the device from now on. */
static void leave(Entity *e, uint64_t at) {
        Device *d = e->device;
        bool first = d->overlaps == e;

        e->overlaps = false;
        DL_DELETE2(d->overlaps, e, overlaps_prev, overlaps_next);
        if (!first)
                return;
        d->overlap_at = NSEC_INFINITY;
        if (d->overlaps)
                overlap_begin(&d->overlaps->overlap, d->overlaps->overlap.own_ns, at);
}

void overlaps_forget(Entity *e) {
        if (e->overlaps)
                leave(e, e->overlap.told_ns);
}

void overlaps_end(Entity *e, bool ended, uint64_t at) {
        if (!e->overlaps)
                return;
        if (e->device->overlaps == e)
                divide(e, ended, at);
        else
                overlaps_look(e->device, at);
        if (e->overlaps)
                leave(e, at);
}

/* A runner that has become idle is about to be replaced. */
void overlaps_divide(Device *d, uint64_t at) {
        Entity *e = d->overlaps;
        bool beside = d->overlap_runner && d->overlap_runner->told_ready;

        if (beside && at > e->overlap.told_ns) {
                divide(e, false, at);
                d->overlap_at = overlap_look_at(&e->overlap);
        }
        if (at >= e->overlap.since_ns + POLICY_TAIL_MAX)
                leave(e, at);
}
