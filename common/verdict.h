/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Verdicts and levels of preemption: the vocabulary that policy/, service/, the page and shim/ share.
 */

typedef enum Verdict {
        VERDICT_RUN,  /* submissions pass */
        VERDICT_HOLD, /* submissions wait at the gate; at levels 2 and 3 submitted work stops, too */
        _VERDICT_MAX,
} Verdict;

const char *verdict_to_string(Verdict v);
int verdict_from_string(const char *s);

/* What a hold stops; each level includes those before it. */
typedef enum PreemptLevel {
        LEVEL_OBSERVE,   /* 0: nothing stops */
        LEVEL_GATE,      /* 1: new submissions */
        LEVEL_DEQUEUE,   /* 2: submitted packets that have not started */
        LEVEL_INTERRUPT, /* 3: running waves, saved and restored */
        _LEVEL_MAX,
} PreemptLevel;

const char *preempt_level_to_string(PreemptLevel v);
