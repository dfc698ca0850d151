/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * How long an entity ran while nobody watched
 *
 * The policy counts what is watched. In between, the time is estimated: an entity is away from estimate_leave() to
 * estimate_return(), and gets the part of that span that it ran of the spans watched before and after it, the mean of
 * both; or what the driver counted. What the policy counted meanwhile (an entity that is believed to be ready
 * throughout) is replaced by that.
 *
 * estimate_run() says what there is so far; while the entity is away, by what was seen last. What estimate_tell() said
 * never goes back: a correction downwards, of an estimate or of what was counted, is taken from what comes.
 *
 * Pure: `now` is CLOCK_MONOTONIC in ns and never goes back, `counted` is what the policy has counted so far. It goes
 * back when the policy hears of the end of a run after it has passed.
 */

#include <stdbool.h>
#include <stdint.h>

typedef struct Estimate {
        bool away;
        uint64_t away_since, away_counted; /* while it is away */
        uint64_t mark_at, mark_counted;    /* since when what is watched counts for the part */
        double part;                       /* that it ran of what was watched last, 0..1 */

        uint64_t unsettled; /* length of the last span away, whose second part is not known yet */
        double unsettled_part;

        uint64_t replaced_ns;  /* counted by the policy while it was away */
        uint64_t estimated_ns; /* put in its place */
        uint64_t floor_ns;     /* told already */
} Estimate;

/* Nobody watches from now on; and somebody does again. Each is idempotent. */
void estimate_leave(Estimate *e, uint64_t now, uint64_t counted);
void estimate_return(Estimate *e, uint64_t now, uint64_t counted);

/* What is watched counts for the part from now on: after a start that tells nothing. */
void estimate_mark(Estimate *e, uint64_t now, uint64_t counted);

/* What was watched since the mark is the part now; the last span away is corrected by it, and there is a new mark. */
void estimate_settle(Estimate *e, uint64_t now, uint64_t counted);

/* The driver says that it ran so long of the last `span` until now, of the time that it is away. */
void estimate_driver(Estimate *e, uint64_t now, uint64_t counted, uint64_t span, uint64_t ran);

uint64_t estimate_run(const Estimate *e, uint64_t now, uint64_t counted);

/* The same, to be told. */
uint64_t estimate_tell(Estimate *e, uint64_t now, uint64_t counted);

/* What is estimated beyond what was counted, less than nothing where that was too much; and by how much what was told
 * is ahead of both. */
int64_t estimate_beyond(const Estimate *e, uint64_t now, uint64_t counted);
uint64_t estimate_ahead(const Estimate *e, uint64_t now, uint64_t counted);
