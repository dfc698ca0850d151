/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Preemption: how far a hold reaches
 *
 * A policy says who is held; here is decided how. The rungs of the ladder, from the cheapest: nothing at all, the gate
 * (new launches wait, what was submitted drains), the queue taken off the device (by its own process), the whole
 * process taken off (by the service, with privileges). Each higher one ends the wait of those with precedence sooner,
 * and costs the device more.
 *
 * The choice weighs two waits: how long what is in flight would take to drain, and how long it takes to take it off and
 * put it back. Who would drain sooner is left to the gate; who has not drained after as much time as taking it off
 * costs is taken off then. So an estimate that is wrong, missing, or a lie costs at most twice what the right one would
 * have. A cost that was never measured counts as none: it is tried, and known then.
 *
 * Pure: no I/O, no clock.
 */

#include <stdbool.h>
#include <stdint.h>

#include "common/verdict.h"

typedef enum Preemption {
        PREEMPTION_AUTO,       /* the cheapest rung that is quick enough */
        PREEMPTION_OFF,        /* never held */
        PREEMPTION_GATE,       /* "1": the gate at most */
        PREEMPTION_DEQUEUE,    /* "2": and what was submitted and has not begun */
        PREEMPTION_INTERRUPT,  /* "3": and what runs */
        PREEMPTION_PRIVILEGED, /* as auto, and by the service itself where the process cannot */
        _PREEMPTION_MAX,
} Preemption;

const char *preemption_to_string(Preemption v);
int preemption_from_string(const char *s);

/* What holds for somebody whose own setting is `own` on a device whose setting is `device`: the one of the two that
 * allows less; where one is "auto", the other. */
Preemption preemption_combine(Preemption own, Preemption device);

/* Whether somebody with setting `a` can be held no less than with `b`. */
bool preemption_is_lower_or_equal(Preemption a, Preemption b);

/* The estimate of a drain that nobody can make. */
#define PREEMPTION_UNKNOWN UINT64_MAX

typedef struct PreemptionInput {
        Preemption setting;     /* preemption_combine() */
        PreemptLevel max_level; /* what the process can do to its own queues */
        bool mes;         /* a GPU whose firmware is known to hang on taking a queue off: the gate only, */
        bool mes_allowed; /* unless the administrator says otherwise */
        bool privileged;  /* the service could hold the process itself */
        bool ignored;     /* the process was asked to take its queues off, and has not */

        uint64_t drain_ns; /* until what is in flight has ended; 0: nothing is; PREEMPTION_UNKNOWN */
        uint64_t held_ns;  /* how long it has been held, and something is in flight still */
        uint64_t hold_ns;  /* estimates of taking off and putting back; 0: not measured yet */
        uint64_t release_ns;
} PreemptionInput;

typedef struct PreemptionChoice {
        PreemptLevel level; /* LEVEL_OBSERVE: is not to be held */
        bool privileged;    /* the service's own hold, on top of it */
} PreemptionChoice;

/* The highest rung that the process can climb itself. Looks at setting, max_level and the words about MES only. */
PreemptLevel preemption_reach(const PreemptionInput *in);

/* Whether something other than the gate can hold it: the process itself, or privilege. Looks at `privileged`, too. */
bool preemption_can_be_taken_off(const PreemptionInput *in);

PreemptionChoice preemption_choose(const PreemptionInput *in);

/* The value of held_ns from which on the choice is another one if nothing drains; UINT64_MAX: it stays as it is. */
uint64_t preemption_patience(const PreemptionInput *in);
