/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Decisions
 */

#include "decision.h"
#include "client.h"

/* Ignore older ready stamps: clients write them, and they would distort the statistics. */
#define EDGE_MAX_NS (1 * NSEC_PER_SEC)

void decision_note_edge(Queue *q, uint64_t since, uint64_t now) {
        Manager *m = q->manager;

        if (!queue_holds(q))
                decision_note_run(q, 0);
        q->edge_at_ns = 0;
        /* The client writes the stamp: ignore one that cannot be true. */
        if (since > now || now - since > EDGE_MAX_NS)
                return;
        q->edge_at_ns = since;
        if (m->n_ready_since < MANAGER_READY_SINCE_MAX)
                m->ready_since[m->n_ready_since++] = since;
}

/* A decision ends when its last verdict is written, or here if there was none to write. */
void decision_end(Manager *m) {
        uint64_t end = m->verdict_at > 0 ? m->verdict_at : now_ns();
        for (unsigned i = 0; i < m->n_ready_since; i++) {
                uint64_t took = ns_sub(end, m->ready_since[i]);

                latency_add(&m->latency, took);
                histogram_add(&m->decisions, took);
        }
        m->n_ready_since = 0;
}

void decision_note_run(Queue *q, uint64_t waited_ns) {
        histogram_add(&q->manager->ready_to_run, waited_ns);
        histogram_add(&q->device->ready_to_run, waited_ns);
}
