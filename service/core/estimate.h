/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Estimate: how long an entity ran while it was not watched
 *
 * The policy counts watched time; unwatched time is estimated. An entity is away from estimate_leave() to
 * estimate_return(). Of that span it is given the mean of the parts that it ran of the watched spans before and after,
 * or what the driver counted. That replaces the policy's count of the same span, for which the entity was believed
 * ready throughout.
 *
 * estimate_run() returns the run time so far, in ns; while the entity is away, by the part of the last watched span.
 * estimate_tell() never goes back: a correction downwards is taken from later time.
 *
 * Pure: `now` is CLOCK_MONOTONIC in ns and never goes back; `counted` is the policy's run time so far. It goes back
 * when the policy hears late of the end of a run.
 */

#include <stdbool.h>
#include <stdint.h>

typedef struct Estimate {
        bool away;
        uint64_t away_since, away_counted; /* while it is away */
        uint64_t mark_at, mark_counted;    /* begin of the watched span that `part` is measured in */
        double part;                       /* part of the last watched span that it ran, 0..1 */

        uint64_t unsettled; /* length of the last span away, as long as the span after it is not measured */
        double unsettled_part;

        uint64_t replaced_ns;  /* counted by the policy while it was away */
        uint64_t estimated_ns; /* estimated instead */
        uint64_t floor_ns;     /* highest value that estimate_tell() returned */
} Estimate;

/* estimate_leave(): the entity is not watched from now on. estimate_return(): it is watched again. Both are
 * idempotent. */
void estimate_leave(Estimate *e, uint64_t now, uint64_t counted);
void estimate_return(Estimate *e, uint64_t now, uint64_t counted);

/* Begins the watched span that `part` is measured in, after a lead that says nothing. */
void estimate_mark(Estimate *e, uint64_t now, uint64_t counted);

/* Sets `part` from the span since the mark, corrects the last span away by it, and sets a new mark. */
void estimate_settle(Estimate *e, uint64_t now, uint64_t counted);

/* The driver says that the entity, which is away, ran `ran` ns of the last `span` ns until now. */
void estimate_driver(Estimate *e, uint64_t now, uint64_t counted, uint64_t span, uint64_t ran);

uint64_t estimate_run(const Estimate *e, uint64_t now, uint64_t counted);

/* estimate_run() for display: it never goes back. */
uint64_t estimate_tell(Estimate *e, uint64_t now, uint64_t counted);

/* estimate_beyond(): the estimate minus the count; may be negative. estimate_ahead(): how far the value that was told
 * is ahead of both. */
int64_t estimate_beyond(const Estimate *e, uint64_t now, uint64_t counted);
uint64_t estimate_ahead(const Estimate *e, uint64_t now, uint64_t counted);
