/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Estimates how long an entity ran while it was not watched
 */

#include "estimate.h"
#include "common/macro.h"
#include "common/time-util.h"

/* A shorter watch tells nothing of the time after it. */
#define WATCHED_MIN_NS NSEC_PER_MSEC

static uint64_t part_of(uint64_t span, double part) {
        return (uint64_t) ((double) span * part);
}

int64_t estimate_beyond(const Estimate *e, uint64_t now, uint64_t counted) {
        uint64_t beyond = e->estimated_ns - e->replaced_ns;

        if (e->away)
                beyond += part_of(ns_sub(now, e->away_since), e->part) - (counted - e->away_counted);
        return (int64_t) beyond;
}

uint64_t estimate_run(const Estimate *e, uint64_t now, uint64_t counted) {
        return MAX(counted + (uint64_t) estimate_beyond(e, now, counted), e->floor_ns);
}

uint64_t estimate_tell(Estimate *e, uint64_t now, uint64_t counted) {
        return e->floor_ns = estimate_run(e, now, counted);
}

uint64_t estimate_ahead(const Estimate *e, uint64_t now, uint64_t counted) {
        return ns_sub(e->floor_ns, counted + (uint64_t) estimate_beyond(e, now, counted));
}

void estimate_mark(Estimate *e, uint64_t now, uint64_t counted) {
        e->mark_at = now;
        e->mark_counted = counted;
}

/* The span without a watch was counted at the rate of the watch before it; correct it to the mean of the watches before
 * and after. */
static void correct(Estimate *e, uint64_t now, uint64_t counted) {
        e->floor_ns = estimate_run(e, now, counted);
        e->estimated_ns -= part_of(e->unsettled, e->unsettled_part);
        e->estimated_ns += part_of(e->unsettled, (e->unsettled_part + e->part) / 2);
        e->unsettled = 0;
}

void estimate_settle(Estimate *e, uint64_t now, uint64_t counted) {
        uint64_t span = ns_sub(now, e->mark_at);

        if (e->away || span < WATCHED_MIN_NS)
                return;
        e->part = MIN((double) ns_sub(counted, e->mark_counted) / (double) span, 1.0);
        if (e->unsettled > 0)
                correct(e, now, counted);
        estimate_mark(e, now, counted);
}

void estimate_leave(Estimate *e, uint64_t now, uint64_t counted) {
        if (e->away)
                return;
        estimate_settle(e, now, counted);
        e->unsettled = 0;
        e->away = true;
        e->away_since = now;
        e->away_counted = counted;
}

void estimate_return(Estimate *e, uint64_t now, uint64_t counted) {
        if (!e->away)
                return;
        uint64_t span = ns_sub(now, e->away_since);
        e->replaced_ns += counted - e->away_counted;
        e->estimated_ns += part_of(span, e->part);
        e->unsettled = span;
        e->unsettled_part = e->part;
        e->away = false;
        estimate_mark(e, now, counted);
}

void estimate_driver(Estimate *e, uint64_t now, uint64_t counted, uint64_t span, uint64_t ran) {
        if (!e->away)
                return;
        uint64_t away = ns_sub(now, e->away_since);
        ran = MIN(ran, span);
        if (span > away) { /* the rest was watched */
                ran = part_of(ran, (double) away / (double) span);
                span = away;
        }
        e->floor_ns = estimate_run(e, now, counted);
        e->replaced_ns += counted - e->away_counted;
        e->estimated_ns += part_of(away - span, e->part) + ran;
        e->part = span > 0 ? (double) ran / (double) span : 0;
        e->away_since = now;
        e->away_counted = counted;
}
