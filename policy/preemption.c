/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Preemption: how far a hold reaches
 */

#include "policy/preemption.h"

#include "common/macro.h"

static const char *const preemption_table[_PREEMPTION_MAX] = {
                [PREEMPTION_AUTO] = "auto",
                [PREEMPTION_OFF] = "off",
                [PREEMPTION_GATE] = "1",
                [PREEMPTION_DEQUEUE] = "2",
                [PREEMPTION_INTERRUPT] = "3",
                [PREEMPTION_PRIVILEGED] = "privileged",
};
DEFINE_STRING_TABLE_LOOKUP(preemption, Preemption);

/* How much a setting allows. */
static unsigned preemption_rank(Preemption v) {
        switch (v) {
        case PREEMPTION_OFF:
                return 0;
        case PREEMPTION_GATE:
                return 1;
        case PREEMPTION_DEQUEUE:
                return 2;
        case PREEMPTION_INTERRUPT:
                return 3;
        case PREEMPTION_PRIVILEGED:
                return 5;
        default:
                return 4;
        }
}

Preemption preemption_combine(Preemption own, Preemption device) {
        if (own == PREEMPTION_AUTO)
                return device;
        if (device == PREEMPTION_AUTO)
                return own;
        return preemption_rank(own) < preemption_rank(device) ? own : device;
}

bool preemption_is_lower_or_equal(Preemption a, Preemption b) {
        return preemption_rank(a) >= preemption_rank(b);
}

static PreemptLevel setting_level(Preemption v) {
        switch (v) {
        case PREEMPTION_OFF:
                return LEVEL_OBSERVE;
        case PREEMPTION_GATE:
                return LEVEL_GATE;
        case PREEMPTION_DEQUEUE:
                return LEVEL_DEQUEUE;
        default:
                return LEVEL_INTERRUPT;
        }
}

static bool is_denied(const PreemptionInput *in) {
        return in->mes && !in->mes_allowed;
}

PreemptLevel preemption_reach(const PreemptionInput *in) {
        PreemptLevel level = MIN(setting_level(in->setting), in->max_level);

        return is_denied(in) && level > LEVEL_GATE ? LEVEL_GATE : level;
}

bool preemption_can_be_taken_off(const PreemptionInput *in) {
        return preemption_reach(in) >= LEVEL_DEQUEUE ||
                        (in->setting == PREEMPTION_PRIVILEGED && in->privileged && !is_denied(in));
}

static uint64_t cost_of_taking_off(const PreemptionInput *in) {
        uint64_t sum;

        return __builtin_add_overflow(in->hold_ns, in->release_ns, &sum) ? UINT64_MAX : sum;
}

/* Returns how long taking off can wait and still be done before an expected entity comes; UINT64_MAX: none is expected,
 * or it is too late for that. A quarter is added to what it usually takes. */
static uint64_t slack(const PreemptionInput *in) {
        if (!in->expected || in->hold_ns > in->expected_ns)
                return UINT64_MAX;
        uint64_t rest = in->expected_ns - in->hold_ns, margin = in->hold_ns / 4;
        return rest > margin ? rest - margin : 0;
}

static bool is_worth_it(const PreemptionInput *in) {
        uint64_t cost = cost_of_taking_off(in), wait = slack(in);

        if (in->drain_ns == 0)
                return false;
        if (in->eager || in->held_ns >= cost || (wait != UINT64_MAX && in->drain_ns > wait))
                return true;
        return in->drain_ns != PREEMPTION_UNKNOWN && in->drain_ns > cost;
}

PreemptionChoice preemption_choose(const PreemptionInput *in) {
        PreemptLevel level = preemption_reach(in);

        if (in->setting == PREEMPTION_OFF)
                return (PreemptionChoice){.level = LEVEL_OBSERVE};
        if (!preemption_can_be_taken_off(in) || !is_worth_it(in))
                return (PreemptionChoice){.level = LEVEL_GATE};
        return (PreemptionChoice){
                        .level = level > LEVEL_GATE ? level : LEVEL_GATE,
                        .privileged = in->setting == PREEMPTION_PRIVILEGED && in->privileged &&
                                        (level < LEVEL_DEQUEUE || in->ignored),
        };
}

uint64_t preemption_patience(const PreemptionInput *in) {
        uint64_t cost = cost_of_taking_off(in), wait = slack(in);

        if (in->setting == PREEMPTION_OFF || in->drain_ns == 0 || !preemption_can_be_taken_off(in) || is_worth_it(in))
                return UINT64_MAX;
        return wait < cost && in->held_ns < cost - wait ? in->held_ns + wait : cost;
}
