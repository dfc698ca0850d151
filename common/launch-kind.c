/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Kinds of launches
 */

#include <stdatomic.h>

#include "common/launch-kind.h"

/* A mean follows the last samples. */
#define MEAN_SAMPLES 8U

/* Launches of one kind take the same time. One that took far longer was probably interrupted, so it counts as only a
 * little longer, and in full when it happens repeatedly: the bound has to follow the launches themselves. */
#define ABOVE_MAX 2U

bool launch_kind_is_settled(const LaunchKinds *k, uint64_t kind) {
        const LaunchKind *e = &k->kinds[launch_kind_place(kind)];

        return atomic_load_explicit(&e->kind, memory_order_relaxed) == kind && e->n >= MEAN_SAMPLES;
}

uint64_t launch_mean_next(uint64_t mean, uint32_t *n, uint64_t sample) {
        uint32_t weight = CLAMP(*n, 1U, MEAN_SAMPLES);

        *n = MIN(*n + 1, MEAN_SAMPLES);
        return MAX(weight == 1 ? sample : (mean * (weight - 1) + sample) / weight, UINT64_C(1));
}

void launch_kind_learn(LaunchKinds *k, uint64_t kind, uint64_t ns) {
        LaunchKind *e = &k->kinds[launch_kind_place(kind)];

        if (atomic_load_explicit(&e->kind, memory_order_relaxed) != kind) {
                atomic_store_explicit(&e->mean_ns, 0, memory_order_relaxed);
                atomic_store_explicit(&e->kind, kind, memory_order_relaxed);
                e->n = e->n_above = 0;
        }
        uint64_t mean = atomic_load_explicit(&e->mean_ns, memory_order_relaxed), most = mean + mean / 2;
        e->n_above = e->n > 1 && ns > most ? e->n_above + 1 : 0;
        if (e->n_above > 0 && e->n_above <= ABOVE_MAX)
                ns = most;
        atomic_store_explicit(&e->mean_ns, launch_mean_next(mean, &e->n, ns), memory_order_relaxed);
}
