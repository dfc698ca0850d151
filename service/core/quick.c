/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Quick queues
 */

#include <utlist.h>

#include "client.h"
#include "quick.h"
#include "user.h"

static uint64_t submitted(const Queue *q) {
        return atomic_load_explicit(&q->page_slot->submitted, memory_order_relaxed);
}

/* Whether no other queue of its entity is ready: otherwise its pauses are no pauses of the entity. */
static bool is_by_itself(const Queue *q) {
        return q->entity && q->entity->n_ready == (unsigned) q->counted_ready;
}

/* --- its pace --- */

static void pace_begin(QuickQueue *k, const Queue *q, uint64_t now) {
        k->since_ns = now;
        k->submitted = submitted(q);
}

/* Adapts the interval: the more looks find something, the more often the queue is looked at. */
static void note_look(Queue *q, uint64_t now) {
        QuickQueue *k = &q->quick;
        bool slow = (submitted(q) - k->submitted) * QUICK_SLOW_NS < ns_sub(now, k->since_ns);

        k->n_slow = slow ? k->n_slow + 1 : k->n_slow - MIN(k->n_slow, 1U);
        pace_begin(k, q, now);
        if (k->n_slow < QUICK_SLOW && is_by_itself(q))
                return;
        k->is = false;
        k->n_edges = 0;
}

bool quick_heard(Queue *q) {
        QuickQueue *k = &q->quick;
        uint64_t now = now_ns();

        if (k->is) {
                pace_begin(k, q, now);
                return true;
        }
        k->n_edges = ns_sub(now, k->heard_ns) <= QUICK_EDGE_NS ? k->n_edges + 1 : k->n_edges / 2;
        k->heard_ns = now;
        if (k->n_edges < QUICK_EDGES || !is_by_itself(q))
                return false;
        k->is = true;
        k->n_slow = 0;
        return true;
}

bool quick_takes(const Queue *q) {
        return q->quick.looked || (q->manager->quick.n < QUICK_MAX && q->client->user->n_quick < QUICK_USER_MAX);
}

/* --- looking --- */

static void arm(Manager *m) {
        uint64_t at = NSEC_INFINITY;
        const Queue *q;

        DL_FOREACH2(m->quick.queues, q, quick.next) {
                bool others = q->device->n_ready > 1;
                uint64_t after = q->quick.pauses ? QUICK_PAUSE_NS : others ? QUICK_LOOK_NS : QUICK_REST_NS;
                at = MIN(at, m->quick.looked_at + after);
        }
        due_set(&m->quick.due, at);
}

/* Whether the queue begins a pause that is worth a verdict: shorter ones are over before a client could act on it. */
static bool begins_to_pause(Queue *q, uint64_t now) {
        const PageSlot *s = q->page_slot;
        bool idle = atomic_load_explicit(&s->outstanding, memory_order_seq_cst) == 0;
        uint64_t drained = atomic_load_explicit(&s->drained_ns, memory_order_relaxed);

        q->quick.pauses = idle && !q->quick.pauses && ns_sub(now, drained) < QUICK_PAUSE_NS;
        return q->quick.pauses;
}

/* Looks at all queues of the list, and removes those that need no more looks. */
static void look_at_all(Manager *m, uint64_t now) {
        m->quick.looked_at = now;
        for (unsigned n = m->quick.n; n > 0 && m->quick.queues; n--) {
                Queue *q = m->quick.queues;

                DL_DELETE2(m->quick.queues, q, quick.prev, quick.next);
                DL_APPEND2(m->quick.queues, q, quick.prev, quick.next);
                m->n_looks++;
                if (begins_to_pause(q, now))
                        continue;
                m->quick.ops->look(q);
                note_look(q, now);
                m->quick.ops->sync_watch(q);
        }
}

void quick_look(Manager *m, uint64_t now) {
        if (now - m->quick.looked_at >= QUICK_LOOK_NS)
                look_at_all(m, now);
        arm(m);
}

static void on_due(Due *due) {
        Manager *m = container_of(due, Manager, quick.due);

        look_at_all(m, now_ns());
        arm(m);
}

/* --- the list --- */

void quick_begin(Queue *q) {
        Manager *m = q->manager;

        if (q->quick.looked)
                return;
        q->quick.looked = true;
        q->quick.pauses = false;
        pace_begin(&q->quick, q, now_ns());
        if (m->quick.n++ == 0)
                m->quick.looked_at = q->quick.since_ns;
        q->client->user->n_quick++;
        DL_APPEND2(m->quick.queues, q, quick.prev, quick.next);
        arm(m);
}

void quick_end(Queue *q) {
        Manager *m = q->manager;

        if (!q->quick.looked)
                return;
        q->quick.looked = false;
        m->quick.n--;
        q->client->user->n_quick--;
        DL_DELETE2(m->quick.queues, q, quick.prev, quick.next);
}

void quick_init(Manager *m, const QuickOps *ops) {
        m->quick.ops = ops;
        due_init(&m->quick.due, &m->dues, on_due);
}

void quick_done(Manager *m) {
        due_done(&m->quick.due);
}
