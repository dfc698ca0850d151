/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Names of verdicts and levels
 */

#include "verdict.h"
#include "macro.h"

static const char *const verdict_table[_VERDICT_MAX] = {
                [VERDICT_RUN] = "run",
                [VERDICT_HOLD] = "hold",
};
DEFINE_STRING_TABLE_LOOKUP(verdict, Verdict);

static const char *const preempt_level_table[_LEVEL_MAX] = {
                [LEVEL_OBSERVE] = "observe",
                [LEVEL_GATE] = "gate",
                [LEVEL_DEQUEUE] = "dequeue",
                [LEVEL_INTERRUPT] = "interrupt",
};
DEFINE_STRING_TABLE_TO_STRING(preempt_level, PreemptLevel);
