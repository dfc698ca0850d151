/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The schedulers
 */

#include <sys/resource.h>

#include "common/thread-util.h"
#include "common/time-util.h"
#include "hint.h"
#include "shim/compat/environment.h"
#include "shim/compat/scheduler.h"
#include "shim/compat/side.h"

#define STACK_SIZE ((size_t) 256 * 1024)
#define TURNS_MAX  16U

/* The concurrency for a policy without turns: it runs all XQueues of one level at the same time. */
#define ALL_AT_ONCE PAGE_SLOTS_MAX

struct LocalDevice {
        char id[COMPAT_NAME_MAX];
        Policy *policy;
        unsigned n_entities;
        uint64_t wake_ns;
        LocalDevice *next;
};

static const struct {
        const PolicyOps *ops;
        bool turns; /* one at a time */
} policies[kPolicyMax] = {
                [kPolicyHighestPriorityFirst] = {&policy_hpf_ops},
                [kPolicyHeterogeneousHighestPriorityFirst] = {&policy_hhpf_ops},
                [kPolicyCPUHighestPriorityFirst] = {&policy_chpf_ops},
                [kPolicyUtilizationPartition] = {&policy_up_ops, true},
                /* This policy divides a device among processes, and here is only one: all its XQueues run. */
                [kPolicyProcessUtilizationPartition] = {&policy_pup_ops},
                [kPolicyKEarliestDeadlineFirst] = {&policy_kedf_ops, true},
                [kPolicyLaxity] = {&policy_lax_ops},
                [kPolicyActiveWindowFirst] = {&policy_awf_ops},
                [kPolicyCompletelyFairScheduler] = {&policy_cfs_ops, true},
                [kPolicyMultiLevelFeedbackQueue] = {&policy_mlfq_ops, true},
};

static struct {
        XSchedulerType type;
        XPolicyType policy; /* of the local one */
        uint64_t timeslice_ns;
        uint32_t k;

        bool read_environment, has_thread;
        const PolicyOps *ops; /* NULL: there is no local scheduler */
        LocalDevice *devices;
        XQueue *changed;
        XQueue *waiting; /* also those that are being destroyed meanwhile */
        uint64_t wake_ns;
} scheduler = {
                .type = kSchedulerAppManaged,
                .timeslice_ns = TIMESLICE_DEFAULT * NSEC_PER_USEC,
                .k = 1,
                .wake_ns = NSEC_INFINITY,
};

static void read_environment(void) {
        if (scheduler.read_environment)
                return;
        scheduler.read_environment = true;
        const AutoXQueue *e = environment();

        scheduler.type = (XSchedulerType) e->scheduler;
        scheduler.policy = (XPolicyType) e->policy;
        scheduler.ops = scheduler.type == kSchedulerLocal ? policies[scheduler.policy].ops : NULL;
        if (e->on && e->is_set[AUTO_XQUEUE_TIMESLICE])
                scheduler.timeslice_ns = (uint64_t) e->values[AUTO_XQUEUE_TIMESLICE] * NSEC_PER_USEC;
        if (e->on && e->is_set[AUTO_XQUEUE_KDEADLINE])
                scheduler.k = (uint32_t) MIN(e->values[AUTO_XQUEUE_KDEADLINE], (int64_t) UINT32_MAX);
}

XSchedulerType scheduler_type(void) {
        read_environment();
        return scheduler.type;
}

/* --- verdicts --- */

static bool may_run(const XQueue *x) {
        if (x->suspended)
                return false;
        if (scheduler.type != kSchedulerAppManaged && hint_forbids(x, scheduler.ops))
                return false;
        return !x->entity || x->granted;
}

static uint32_t limit_of(const XQueue *x) {
        if (scheduler.type == kSchedulerGlobal && !x->bounded)
                return 0;
        uint32_t limit = (uint32_t) MIN(x->threshold, (int64_t) INT32_MAX);
        return x->entity && x->grant_threshold > 0 ? MIN(limit, x->grant_threshold) : limit;
}

/* Returns whether the XQueue was told to hold, and has drained. */
static bool write_verdict(XQueue *x) {
        bool was_held = side_is_held(x->side);

        atomic_store_explicit(&x->side->limit, limit_of(x), memory_order_relaxed);
        side_set_verdict(x->side, may_run(x) ? VERDICT_RUN : VERDICT_HOLD);
        return !was_held && side_is_held(x->side) && x->entity && side_in_flight(x->side) == 0;
}

static void on_grant(void *owner, const PolicyGrant *grant, void *userdata) {
        XQueue *x = owner;

        x->granted = grant->verdict == VERDICT_RUN;
        x->grant_threshold = grant->threshold;
        if (x->changed)
                return;
        x->changed = true;
        x->next_changed = scheduler.changed;
        scheduler.changed = x;
}

/* Writes holds first, then runs. Returns whether an XQueue has drained by that. */
static bool write_changed(uint64_t now) {
        bool drained = false;

        for (XQueue *x = scheduler.changed; x; x = x->next_changed)
                if (!may_run(x) && write_verdict(x)) {
                        scheduler.ops->entity_drained(x->entity, now);
                        drained = true;
                }
        for (XQueue *x; (x = scheduler.changed);) {
                scheduler.changed = x->next_changed;
                x->changed = false;
                (void) write_verdict(x);
        }
        return drained;
}

/* --- what policies are told --- */

static void look_at(XQueue *x, uint64_t now) {
        if (!x->entity)
                return;
        /* An XQueue that waits for another has no work for the device, and neither has one that may not run at all. */
        bool ready = side_outstanding(x->side) != 0 && !x->waits_for && !x->suspended &&
                        !hint_forbids(x, scheduler.ops);

        if (ready != x->told_ready && ready)
                scheduler.ops->entity_ready(x->entity, now);
        else if (ready != x->told_ready)
                scheduler.ops->entity_idle(x->entity, now);
        x->told_ready = ready;
        if (side_in_flight(x->side) == 0)
                scheduler.ops->entity_drained(x->entity, now);
}

static void on_edge(XQueue *x) {
        look_at(x, now_ns());
}

static PolicySettings settings_of(const XQueue *x) {
        PolicySettings s = hint_settings(x, scheduler.ops);

        s.threshold = (uint32_t) MIN(x->threshold, (int64_t) UINT16_MAX);
        s.active = true;
        s.cpu_priority = -getpriority(PRIO_PROCESS, 0);
        return s;
}

/* XQueues that wait for this one, directly or through others, make it urgent. A circle of waits is the program's
 * deadlock. */
static PolicySettings settings_with_waiters(XQueue *x) {
        PolicySettings s = settings_of(x);
        unsigned n = 0;

        for (XQueue *w = scheduler.waiting; w; w = w->next_waiting)
                n++;
        for (XQueue *w = scheduler.waiting; w; w = w->next_waiting) {
                unsigned steps = n;

                for (XQueue *on = w->waits_for; on && steps > 0; on = on->waits_for, steps--)
                        if (on == x) {
                                PolicySettings other = settings_of(w);
                                hint_merge(&s, &other);
                                break;
                        }
        }
        return s;
}

/* --- the turn --- */

static void tell_outside(uint64_t now) {
        if (!scheduler.ops || !policy_is_global(scheduler.ops))
                return;
        for (LocalDevice *d = scheduler.devices; d; d = d->next) {
                int level = POLICY_LEVEL_NONE;

                for (const LocalDevice *other = scheduler.devices; other; other = other->next)
                        if (other != d) {
                                int theirs = scheduler.ops->level(other->policy);
                                level = MAX(level, theirs);
                        }
                scheduler.ops->outside(d->policy, level, now);
        }
}

static void turn(void) {
        bool again = scheduler.ops != NULL;

        scheduler.wake_ns = NSEC_INFINITY;
        for (unsigned turns = 0; again && turns < TURNS_MAX; turns++) {
                side_take_edges(on_edge);
                uint64_t now = now_ns();
                tell_outside(now);
                scheduler.wake_ns = NSEC_INFINITY;
                for (LocalDevice *d = scheduler.devices; d; d = d->next) {
                        d->wake_ns = scheduler.ops->dispatch(d->policy, now);
                        scheduler.wake_ns = MIN(scheduler.wake_ns, d->wake_ns);
                }
                again = write_changed(now);
        }
        if (again)
                scheduler.wake_ns = 0;
}

/* Decides anew. Called after a change on another thread than the scheduler's. */
static void turn_and_tell(void) {
        turn();
        if (scheduler.has_thread)
                side_nudge();
}

static void *scheduler_main(void *unused) {
        (void) pthread_setname_np(pthread_self(), "xsched-local");
        for (;;) {
                uint32_t seen = side_nudges();
                uint64_t wake;
                {
                        COMPAT_LOCKED;
                        turn();
                        wake = scheduler.wake_ns;
                }
                side_await_nudge(seen, wake);
        }
        return NULL;
}

/* --- devices --- */

static PolicyConfig device_config(void) {
        PolicyConfig c = POLICY_CONFIG_DEFAULT;

        c.timeslice_ns = scheduler.timeslice_ns;
        c.starve_run_ns = 0; /* no floor: the program decides about its own queues */
        c.concurrency = scheduler.policy == kPolicyKEarliestDeadlineFirst ? scheduler.k
                        : policies[scheduler.policy].turns                ? 1
                                                                          : ALL_AT_ONCE;
        return c;
}

static int device_get(const char *id, LocalDevice **ret) {
        static const PolicyCallbacks callbacks = {.grant = on_grant};
        const PolicyConfig config = device_config();

        for (LocalDevice *d = scheduler.devices; d; d = d->next)
                if (streq(d->id, id)) {
                        *ret = d;
                        return 0;
                }
        LocalDevice *d = calloc(1, sizeof(LocalDevice));
        if (!d)
                return -ENOMEM;
        int r = scheduler.ops->new (&config, &callbacks, &d->policy);
        if (r < 0) {
                free(d);
                return r;
        }
        memcpy(d->id, id, sizeof(d->id));
        d->next = scheduler.devices;
        scheduler.devices = d;
        *ret = d;
        return 0;
}

static void device_put(LocalDevice *d) {
        LocalDevice **link = &scheduler.devices;

        if (d->n_entities > 0)
                return;
        while (*link != d)
                link = &(*link)->next;
        *link = d->next;
        scheduler.ops->free(d->policy);
        free(d);
}

static int enter(XQueue *x) {
        LocalDevice *d;
        uint64_t now = now_ns();

        int r = device_get(x->hwq->device, &d);
        if (r < 0)
                return r;
        x->granted = true; /* as the policy assumes */
        x->grant_threshold = 0;
        x->told_ready = false;
        const PolicySettings s = settings_with_waiters(x);
        r = scheduler.ops->entity_new(d->policy, NULL, x, &s, now, &x->entity);
        if (r < 0) {
                x->entity = NULL;
                device_put(d);
                return r;
        }
        x->device = d;
        d->n_entities++;
        side_set_watch(x->side, PAGE_WATCH_ALL);
        look_at(x, now);
        return 0;
}

static void leave(XQueue *x) {
        if (!x->entity)
                return;
        side_set_watch(x->side, 0);
        x->entity = scheduler.ops->entity_free(x->entity, now_ns());
        x->device->n_entities--;
        device_put(TAKE_PTR(x->device));
        for (XQueue **link = &scheduler.changed; x->changed; link = &(*link)->next_changed)
                if (*link == x) {
                        *link = x->next_changed;
                        x->changed = false;
                }
}

static int start_thread(void) {
        if (scheduler.has_thread)
                return 0;
        int r = thread_start(scheduler_main, NULL, STACK_SIZE);
        scheduler.has_thread = r >= 0;
        return r;
}

int scheduler_add(XQueue *x) {
        read_environment();
        int r = scheduler.ops ? start_thread() : 0;
        if (r >= 0 && scheduler.ops)
                r = enter(x);
        (void) write_verdict(x);
        turn_and_tell();
        return r;
}

void scheduler_remove(XQueue *x) {
        leave(x);
        x->suspended = false;
        x->hints.priority = MAX(x->hints.priority, PRIORITY_MIN);
        x->hints.utilization = MAX(x->hints.utilization, 1U);
        (void) write_verdict(x);
        turn_and_tell();
}

static void configure_all(void) {
        uint64_t now = now_ns();

        for (XQueue *x = compat_all(); x; x = x->hh.next)
                if (x->entity) {
                        const PolicySettings s = settings_with_waiters(x);
                        scheduler.ops->entity_configure(x->entity, &s, now);
                }
}

void scheduler_changed(XQueue *x) {
        if (x->entity) {
                configure_all();
                look_at(x, now_ns());
        }
        (void) write_verdict(x);
        turn_and_tell();
}

static void boost(const XQueue *on) {
        if (scheduler.type == kSchedulerGlobal && on->queue)
                xsched_queue_boost(on->queue);
}

static void waiting_changed(XQueue *waits) {
        if (!scheduler.ops)
                return;
        configure_all();
        look_at(waits, now_ns());
        turn_and_tell();
}

void scheduler_wait_begin(XQueue *waits, XQueue *on) {
        waits->waits_for = on;
        on->refs++; /* until scheduler_wait_end() */
        waits->next_waiting = scheduler.waiting;
        scheduler.waiting = waits;
        boost(on);
        waiting_changed(waits);
}

void scheduler_wait_end(XQueue *waits) {
        XQueue **link = &scheduler.waiting;

        while (*link != waits)
                link = &(*link)->next_waiting;
        *link = waits->next_waiting;
        waits->waits_for->refs--; /* the caller has a reference */
        waits->waits_for = NULL;
        waiting_changed(waits);
}

/* --- which --- */

static void reconfigure(void) {
        const PolicyConfig config = device_config();

        for (LocalDevice *d = scheduler.devices; d; d = d->next)
                (void) scheduler.ops->configure(d->policy, &config, now_ns());
        turn_and_tell();
}

void scheduler_set_timeslice(uint64_t ns) {
        read_environment();
        scheduler.timeslice_ns = ns;
        if (scheduler.ops)
                reconfigure();
}

void scheduler_set_k(uint32_t k) {
        read_environment();
        scheduler.k = k;
        if (scheduler.ops)
                reconfigure();
}

int scheduler_set(XSchedulerType type, XPolicyType policy) {
        int r = 0;

        read_environment();
        if (type <= kSchedulerUnknown || type >= kSchedulerMax)
                return -EINVAL;
        if (type == kSchedulerLocal && (policy <= kPolicyUnknown || policy >= kPolicyMax))
                return -EINVAL;
        const PolicyOps *ops = type == kSchedulerLocal ? policies[policy].ops : NULL;
        if (type == kSchedulerLocal && !ops)
                return -EOPNOTSUPP;

        if (ops && compat_all())
                r = start_thread();
        if (r < 0)
                return r;
        for (XQueue *x = compat_all(); x; x = x->hh.next)
                leave(x);
        scheduler.type = type;
        scheduler.policy = policy;
        scheduler.ops = ops;
        for (XQueue *x = compat_all(); x; x = x->hh.next) {
                int k = ops ? enter(x) : 0;
                r = r < 0 ? r : k;
                if (type == kSchedulerGlobal)
                        hint_send(x);
                else
                        hint_withdraw(x);
                (void) write_verdict(x);
        }
        for (const XQueue *w = scheduler.waiting; w; w = w->next_waiting)
                boost(w->waits_for);
        turn_and_tell();
        return r;
}

/* The child keeps the parent's kind of scheduler. */
void scheduler_forget(void) {
        scheduler.has_thread = false;
        scheduler.devices = NULL;
        scheduler.changed = NULL;
        scheduler.waiting = NULL;
}
