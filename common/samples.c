/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Samples
 */

#include "samples.h"
#include "array.h"
#include "macro.h"

int samples_add(Samples *s, uint64_t at_ns, uint64_t ns) {
        Sample *items = array_grow(s->items, s->n, sizeof(Sample));
        if (!items)
                return -ENOMEM;
        s->items = items;
        s->items[s->n++] = (Sample){.at_ns = at_ns, .ns = ns};
        return 0;
}

void samples_done(Samples *s) {
        free(s->items);
        *s = (Samples){};
}

static int compare(const void *a, const void *b) {
        uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

        return x < y ? -1 : x > y;
}

uint64_t *samples_sorted(const Samples *s) {
        uint64_t *sorted = s->n > 0 ? reallocarray(NULL, s->n, sizeof(uint64_t)) : NULL;

        if (!sorted)
                return NULL;
        for (size_t i = 0; i < s->n; i++)
                sorted[i] = s->items[i].ns;
        qsort(sorted, s->n, sizeof(uint64_t), compare);
        return sorted;
}

uint64_t percentile(const uint64_t *sorted, size_t n, double p) {
        double exact = p / 100.0 * (double) n;
        size_t rank = (size_t) exact;

        rank += (double) rank < exact;
        return sorted[CLAMP(rank, (size_t) 1, n) - 1];
}

Summary samples_summary(const Samples *s) {
        _cleanup_free_ uint64_t *sorted = samples_sorted(s);
        uint64_t sum = 0;

        if (!sorted || s->n == 0)
                return (Summary){};
        for (size_t i = 0; i < s->n; i++)
                sum += sorted[i];
        return (Summary){
                        .n = s->n,
                        .p50_ns = percentile(sorted, s->n, 50),
                        .p90_ns = percentile(sorted, s->n, 90),
                        .p99_ns = percentile(sorted, s->n, 99),
                        .max_ns = sorted[s->n - 1],
                        .mean_ns = sum / s->n,
        };
}
