/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Reads what clients count in their pages, and how long queues wait
 */

#include "counters.h"
#include "client.h"
#include "decision.h"
#include "suspended.h"

void client_counters_add(ClientCounters *sum, const ClientCounters *add) {
        sum->submitted += add->submitted;
        sum->completed += add->completed;
        sum->held_ns += add->held_ns;
        sum->lease_expired += add->lease_expired;
}

void queue_counters(const Queue *q, ClientCounters *ret) {
        const PageSlot *s = q->page_slot;
        uint64_t waiting = q->waits_since_ns > 0 ? ns_sub(now_ns(), q->waits_since_ns) : 0;
        /* The client adds to held_ns when a wait is over. */
        uint64_t held_ns = atomic_load_explicit(&s->held_ns, memory_order_relaxed);

        *ret = (ClientCounters){
                        .submitted = atomic_load_explicit(&s->submitted, memory_order_relaxed),
                        .completed = atomic_load_explicit(&s->completed, memory_order_relaxed),
                        .held_ns = MAX(held_ns, q->waited_ns) + waiting,
                        .lease_expired = atomic_load_explicit(&s->lease_expiries, memory_order_relaxed),
        };
}

void client_counters(const Client *c, ClientCounters *ret) {
        *ret = c->past;
        for (uint32_t i = 0; i < c->n_slots; i++) {
                if (!c->slots[i].queue)
                        continue;
                ClientCounters one;
                queue_counters(c->slots[i].queue, &one);
                client_counters_add(ret, &one);
        }
}

void queue_note_wait(Queue *q) {
        bool waits = queue_holds(q) && q->ready;
        uint64_t edge_at_ns = TAKE_GENERIC(q->edge_at_ns, 0);
        ClientCounters n;

        if (waits == (q->waits_since_ns > 0))
                return;
        if (!waits) {
                queue_counters(q, &n);
                q->waited_ns = n.held_ns;
                if (q->ready && q->wait_counts)
                        decision_note_run(q, ns_sub(now_ns(), q->wait_edge_ns));
                q->waits_since_ns = 0;
                return;
        }
        q->waits_since_ns = now_ns();
        q->wait_edge_ns = edge_at_ns > 0 ? edge_at_ns : q->waits_since_ns;
        q->wait_counts = !queue_is_suspended(q);
}
