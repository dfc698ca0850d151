/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Buckets: how much of something may be had in a time
 *
 * A bucket drains as time passes, what is taken is poured in, and while it is not fuller than its room there is credit.
 * What a thing costs is said in the time that it takes to drain: with 10,000 a second, one is 100 µs; with 5 % of a
 * CPU, 1 ms of work is 20 ms. Taking never fails: what something costs is often known only when it has been done, and
 * is then a debt.
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

/* When there is credit again, at the earliest now. */
static inline uint64_t bucket_credit_at(const Bucket *b, uint64_t now, uint64_t room_ns) {
        return bucket_has_credit(b, now, room_ns) ? now : b->empty_at - room_ns;
}

static inline bool bucket_is_empty(const Bucket *b, uint64_t now) {
        return b->empty_at <= now;
}
