/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Overlaps
 */

#include "overlap.h"
#include "common/macro.h"
#include "common/time-util.h"

/* Shortest time to the next look, and the part of the tail's age that it is at least. What a look gives to one of the
 * two stays there: so looks are rarer than edges. A tail of a second costs some sixteen. */
#define LOOK_MIN_NS (2 * NSEC_PER_MSEC)
#define LOOK_PART   2U

void overlap_begin(Overlap *o, uint64_t own_ns, uint64_t now_ns) {
        *o = (Overlap){.since_ns = now_ns, .own_ns = own_ns, .told_ns = now_ns};
}

/* The tail's part of all the time since its begin, as far as it can be known now. The device may have begun with
 * either. It has not begun with the tail if others got something done, and the tail has not ended. An estimate that is
 * contradicted is not believed. */
static uint64_t overlap_part(const Overlap *o, uint64_t rest_ns, bool ended, uint64_t now_ns) {
        uint64_t most_ns = ns_sub(ns_sub(now_ns, o->since_ns), o->others_ns), least_ns = ns_sub(most_ns, rest_ns);

        if (!ended && o->others_ns > 0)
                return least_ns;
        return o->own_ns < least_ns ? most_ns : MIN(o->own_ns, most_ns);
}

uint64_t overlap_divide(Overlap *o, uint64_t done_ns, uint64_t rest_ns, bool ended, uint64_t now_ns) {
        uint64_t ns = ns_sub(now_ns, o->told_ns), part_ns;

        o->others_ns = ns_add(o->others_ns, done_ns);
        part_ns = ns_sub(overlap_part(o, rest_ns, ended, now_ns), o->had_ns);
        part_ns = MIN(part_ns, ns);
        o->had_ns += part_ns;
        o->told_ns += ns;
        return part_ns;
}

uint64_t overlap_look_at(const Overlap *o) {
        uint64_t age_ns = o->told_ns - o->since_ns, next_ns = MAX(age_ns / LOOK_PART, (uint64_t) LOOK_MIN_NS);

        if (age_ns == 0 && o->own_ns != OVERLAP_UNKNOWN)
                next_ns = ns_add(next_ns, o->own_ns);
        return ns_add(o->told_ns, next_ns);
}
