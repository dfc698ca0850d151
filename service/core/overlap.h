/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Overlap: what a tail had of the device, of the time that somebody else was let run beside it. Pure
 *
 * A device may run the held entity's launches first, or behind all that the other has launched, or in turns with it.
 * Nobody tells which; and what is charged is not taken back. Known are
 *
 *   - what the other has got done meanwhile: its completed launches times their mean. The tail had the rest at most;
 *   - what the tail takes alone, by its client's own estimate. This counts only where the other's work does not
 *     contradict it: a client whose launches are longer than it says pays for all that nobody else got done.
 *
 * Of the other's launch in progress nobody knows how much is done. It counts for the other up to its usual length while
 * the tail goes on, or has an estimate. So a tail with a wrong estimate is charged for one launch of the other too
 * little at most.
 *
 * What is not known goes to the tail: all of it where the other does not tell its launches' length.
 */

#include <stdbool.h>
#include <stdint.h>

#define OVERLAP_UNKNOWN UINT64_MAX

typedef struct Overlap {
        uint64_t since_ns;
        uint64_t own_ns;    /* what the launches in flight take, by their client; OVERLAP_UNKNOWN */
        uint64_t others_ns; /* what others got done since */
        uint64_t told_ns;   /* up to when the time is divided, ... */
        uint64_t had_ns;    /* ... and the tail's part */
} Overlap;

void overlap_begin(Overlap *o, uint64_t own_ns, uint64_t now_ns);

/* Divides the time up to `now_ns`, and returns the tail's part of the time since the last division. `done_ns`: what
 * others got done since then; `rest_ns`: usual length of the other's launch in progress; 0: it has none. `ended`: all
 * launches of the tail have. */
uint64_t overlap_divide(Overlap *o, uint64_t done_ns, uint64_t rest_ns, bool ended, uint64_t now_ns);

/* When to divide again, if nothing happens before: time that is not divided is charged late. */
uint64_t overlap_look_at(const Overlap *o);
