/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Hints
 */

#include "hint.h"
#include "common/time-util.h"
#include "shim/compat/scheduler.h"

#define DELAY_MAX_US ((int64_t) (POLICY_DELAY_MAX / NSEC_PER_USEC))

Hints hint_defaults(void) {
        return (Hints){
                        .utilization = UTILIZATION_DEFAULT,
                        .laxity_us = NO_LAXITY,
                        .deadline_us = NO_DEADLINE,
        };
}

bool hint_forbids(const XQueue *x, const PolicyOps *ops) {
        return x->hints.priority == PRIORITY_NO_EXECUTE ||
                        (x->hints.utilization == 0 && (ops == &policy_up_ops || ops == &policy_pup_ops));
}

static uint32_t delay_us(int64_t us) {
        return us > 0 ? (uint32_t) MIN(us, DELAY_MAX_US) : 0;
}

PolicySettings hint_settings(const XQueue *x, const PolicyOps *ops) {
        const Hints *h = &x->hints;
        bool lax = ops == &policy_lax_ops && h->laxity_us >= 0;
        PolicySettings s = POLICY_SETTINGS_DEFAULT;

        s.priority = lax ? MAX(h->lax_priority, PRIORITY_MIN) : MAX(h->priority, PRIORITY_MIN);
        s.critical = MAX(h->critical, PRIORITY_MIN);
        /* A laxity of 0 is used up at once. */
        s.laxity_us = h->laxity_us == 0 ? 1 : delay_us(h->laxity_us);
        s.deadline_us = delay_us(h->deadline_us);
        s.utilization = MAX(h->utilization, 1U);
        return s;
}

/* Returns the sooner one; 0 is never. */
static uint32_t sooner(uint32_t a, uint32_t b) {
        return a == 0 || (b != 0 && b < a) ? b : a;
}

void hint_merge(PolicySettings *s, const PolicySettings *other) {
        s->priority = MAX(s->priority, other->priority);
        s->critical = MAX(s->critical, other->critical);
        s->laxity_us = sooner(s->laxity_us, other->laxity_us);
        s->deadline_us = sooner(s->deadline_us, other->deadline_us);
        s->utilization = MAX(s->utilization, other->utilization);
}

enum {
        TOLD_PRIORITY = 1 << 0,
        TOLD_UTILIZATION = 1 << 1,
        TOLD_DEADLINE = 1 << 2,
        TOLD_LAXITY = 1 << 3,
        TOLD_THRESHOLD = 1 << 4,
};

/* Tells xschedd a value that is set. One that is not, `none`, it is told only where it had another. */
static void tell(XQueue *x, unsigned which, const char *name, bool is_set, int64_t value, int64_t none) {
        if (is_set || x->told & which)
                (void) xsched_queue_hint(x->queue, name, is_set ? value : none);
}

static void tell_all(XQueue *x, unsigned set) {
        const PolicySettings s = hint_settings(x, NULL);
        int64_t threshold = MIN(x->threshold, (int64_t) UINT16_MAX);

        if (!x->queue)
                return;
        tell(x, TOLD_PRIORITY, "Priority", set & TOLD_PRIORITY, s.priority, PRIORITY_MAX);
        tell(x, TOLD_UTILIZATION, "Utilization", set & TOLD_UTILIZATION, s.utilization, UTILIZATION_DEFAULT);
        tell(x, TOLD_DEADLINE, "Deadline", set & TOLD_DEADLINE, s.deadline_us, 0);
        tell(x, TOLD_LAXITY, "Laxity", set & TOLD_LAXITY, s.laxity_us, 0);
        tell(x, TOLD_LAXITY, "Critical", set & TOLD_LAXITY, s.critical, PRIORITY_MAX);
        tell(x, TOLD_THRESHOLD, "Threshold", set & TOLD_THRESHOLD, threshold, 0);
        x->told = set;
}

/* Hints that the service has no setting for are expressed as far as possible. */
void hint_send(XQueue *x) {
        const Hints *h = &x->hints;

        tell_all(x,
                        TOLD_PRIORITY | (h->utilization != UTILIZATION_DEFAULT ? TOLD_UTILIZATION : 0) |
                                        (h->deadline_us != NO_DEADLINE ? TOLD_DEADLINE : 0) |
                                        (h->laxity_us != NO_LAXITY ? TOLD_LAXITY : 0) |
                                        (x->bounded ? TOLD_THRESHOLD : 0));
}

void hint_withdraw(XQueue *x) {
        tell_all(x, 0);
}

XResult hint_changed(XQueue *x) {
        if (scheduler_type() == kSchedulerGlobal)
                hint_send(x);
        scheduler_changed(x);
        return kXSchedSuccess;
}

_public_
XResult XHintSetScheduler(XSchedulerType scheduler, XPolicyType policy) {
        PROTECT_ERRNO;
        COMPAT_LOCKED;
        return compat_error(scheduler_set(scheduler, policy));
}

static bool is_priority(Priority p) {
        return p >= PRIORITY_NO_EXECUTE && p <= PRIORITY_MAX;
}

_public_
XResult XHintPriority(XQueueHandle xq, Priority prio) {
        CALL_LOCKED(x, xq);
        if (!is_priority(prio))
                return kXSchedErrorInvalidValue;
        x->hints.priority = prio;
        return hint_changed(x);
}

_public_
XResult XHintUtilization(XQueueHandle xq, Utilization util) {
        CALL_LOCKED(x, xq);
        if (util < UTILIZATION_MIN || util > UTILIZATION_MAX)
                return kXSchedErrorInvalidValue;
        x->hints.utilization = (uint32_t) util;
        return hint_changed(x);
}

_public_
XResult XHintTimeslice(Timeslice ts_us) {
        PROTECT_ERRNO;
        COMPAT_LOCKED;
        if ((uint64_t) ts_us == TIMESLICE_UNLIMITED)
                scheduler_set_timeslice(NSEC_INFINITY);
        else if (ts_us < TIMESLICE_MIN || ts_us > TIMESLICE_MAX)
                return kXSchedErrorInvalidValue;
        else
                scheduler_set_timeslice((uint64_t) ts_us * NSEC_PER_USEC);
        return kXSchedSuccess;
}

_public_
XResult XHintLaxity(XQueueHandle xq, Laxity lax_us, Priority lax_prio, Priority crit_prio) {
        CALL_LOCKED(x, xq);
        if (lax_us < NO_LAXITY || !is_priority(lax_prio) || !is_priority(crit_prio))
                return kXSchedErrorInvalidValue;
        x->hints.laxity_us = lax_us;
        x->hints.lax_priority = lax_prio;
        x->hints.critical = crit_prio;
        return hint_changed(x);
}

_public_
XResult XHintDeadline(XQueueHandle xq, Deadline ddl_us) {
        CALL_LOCKED(x, xq);
        if (ddl_us < NO_DEADLINE || ddl_us == 0)
                return kXSchedErrorInvalidValue;
        x->hints.deadline_us = ddl_us;
        return hint_changed(x);
}

_public_
XResult XHintKDeadline(size_t k) {
        PROTECT_ERRNO;
        COMPAT_LOCKED;
        if (k == 0)
                return kXSchedErrorInvalidValue;
        scheduler_set_k((uint32_t) MIN(k, (size_t) UINT32_MAX));
        return kXSchedSuccess;
}
