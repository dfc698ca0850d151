/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Buckets: limits of use per time
 *
 * A bucket drains as time passes, each use fills it, and there is credit while it is not fuller than its room. Costs
 * are given as the time that they take to drain: at 10,000 a second, one use costs 100 µs; at 5 % of a CPU, 1 ms of
 * work costs 20 ms. A use never fails: its cost is often known only afterwards, and is then a debt.
 */

#include <stdbool.h>
#include <stdint.h>

#include "common/macro.h"

typedef struct Bucket {
        uint64_t empty_at; /* CLOCK_MONOTONIC */
} Bucket;

static inline void bucket_take(Bucket *b, uint64_t now, uint64_t cost_ns) {
        uint64_t from = MAX(b->empty_at, now);
        b->empty_at = from > UINT64_MAX - cost_ns ? UINT64_MAX : from + cost_ns;
}

static inline bool bucket_has_credit(const Bucket *b, uint64_t now, uint64_t room_ns) {
        return b->empty_at <= now || b->empty_at - now <= room_ns;
}

/* Returns when there is credit again; never earlier than `now`. */
static inline uint64_t bucket_credit_at(const Bucket *b, uint64_t now, uint64_t room_ns) {
        return bucket_has_credit(b, now, room_ns) ? now : b->empty_at - room_ns;
}

static inline bool bucket_is_empty(const Bucket *b, uint64_t now) {
        return b->empty_at <= now;
}
