/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Preemption: how far a hold reaches
 *
 * A policy decides which entities are held; this file decides how. The rungs of the ladder, from the cheapest: no hold,
 * the gate (new launches wait, submitted ones drain), the queue taken off the device (by its own process), the whole
 * process taken off (by the service, with privileges). Each higher rung ends the wait of entities with precedence
 * sooner, and costs the device more.
 *
 * The choice compares two times: how long the launches in flight take to drain, and how long it takes to take the queue
 * off and put it back. An entity that would drain sooner is left to the gate; one that has not drained within the cost
 * of taking it off is then taken off. So an estimate that is wrong, missing or a lie costs at most twice what the right
 * one would have cost. A cost that was never measured counts as 0, so that it is tried and measured.
 *
 * Where an entity with precedence is expected at a known time, and taking off is quick enough to be done by then, what
 * counts is that the device is free by then. What drains is left to the gate for as long as taking off can wait, and no
 * longer: an estimate that proves too short would have the expected entity wait for both.
 *
 * This comes after the policy's decision and needs nothing of it, so it is the same for all policies.
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
        PREEMPTION_DEQUEUE,    /* "2": also takes off launches that have not begun */
        PREEMPTION_INTERRUPT,  /* "3": also takes off running launches */
        PREEMPTION_PRIVILEGED, /* as auto, and privileged holds where the process cannot */
        _PREEMPTION_MAX,
} Preemption;

const char *preemption_to_string(Preemption v);
int preemption_from_string(const char *s);

/* The setting in force for an entity with setting `own` on a device with setting `device`: the one of the two that
 * allows less; if one is "auto", the other. */
Preemption preemption_combine(Preemption own, Preemption device);

/* Whether an entity with setting `a` can be held at least as far as with `b`. */
bool preemption_is_lower_or_equal(Preemption a, Preemption b);

/* The estimate of a drain where there is none. */
#define PREEMPTION_UNKNOWN UINT64_MAX

typedef struct PreemptionInput {
        Preemption setting;     /* preemption_combine() */
        PreemptLevel max_level; /* highest level that the process can do itself */
        bool mes;               /* the GPU's firmware is known to hang when a queue is taken off: gate only */
        bool mes_allowed;       /* the administrator allows more than the gate there */
        bool privileged;        /* the service can make a privileged hold */
        bool eager;             /* whatever the two times are: what has launches in flight is taken off at once */
        bool ignored;           /* the process has ignored an order to take its queues off */

        uint64_t drain_ns; /* until the launches in flight have ended; 0: none; or PREEMPTION_UNKNOWN */
        uint64_t held_ns;  /* how long it is held with launches still in flight */
        uint64_t hold_ns;  /* estimates of taking off and putting back; 0: not measured yet */
        uint64_t release_ns;

        bool expected;        /* an entity with precedence is expected, */
        uint64_t expected_ns; /* not earlier than in so many ns */
} PreemptionInput;

typedef struct PreemptionChoice {
        PreemptLevel level; /* LEVEL_OBSERVE: no hold */
        bool privileged;    /* a privileged hold in addition */
} PreemptionChoice;

/* The highest level that the process can do itself. Uses only setting, max_level, mes and mes_allowed. */
PreemptLevel preemption_reach(const PreemptionInput *in);

/* Whether the process or a privileged hold can take it off the device. Also uses `privileged`. */
bool preemption_can_be_taken_off(const PreemptionInput *in);

PreemptionChoice preemption_choose(const PreemptionInput *in);

/* The value of held_ns at which the choice changes if nothing drains and time passes; UINT64_MAX: never. */
uint64_t preemption_patience(const PreemptionInput *in);
