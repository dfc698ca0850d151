/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The simulated machine; see policy-sim.h.
 */

#include <assert.h>

#include "policy-sim.h"

#define UNBOUNDED 64U /* launches in flight at which a program stops by itself */

static uint32_t in_flight(const SimTenant *t) {
        return t->outstanding - t->waiters;
}

/* Number of launches between two waits for their end. */
static uint32_t tenant_burst(const SimTenant *t) {
        uint64_t n = t->pattern == SIM_BURST ? SIM_BURST_NS / t->kernel_ns : 1;

        return (uint32_t) MAX(n, UINT64_C(1));
}

/* --- edges --- */

static void mark_dirty(Sim *s, SimTenant *t) {
        if (!s->watched)
                return;
        t->dirty = true;
        s->service_ns = MIN(s->service_ns, s->now_ns + s->latencies.edge_ns);
}

/* --- the device --- */

/* The task whose launch is next, where the device takes turns; -1: none. */
static int device_next_in_turn(const Sim *s) {
        for (size_t i = 0; i < s->n; i++) {
                size_t next = ((size_t) (s->last + 1) + i) % s->n;

                if (s->tenants[next].n_on_device > 0)
                        return (int) next;
        }
        return -1;
}

static int device_next(const Sim *s) {
        if (s->share_ns > 0)
                return device_next_in_turn(s);
        return s->head < s->tail ? s->ring[s->head % SIM_RING] : -1;
}

/* The device works on the tenant's first launch from now on. Begins the tenant's turn, unless it has the turn
 * already. */
static void device_begin(Sim *s, int who) {
        uint64_t done_ns;

        s->current = who;
        s->from_ns = s->now_ns;
        if (who < 0) {
                s->end_ns = NSEC_INFINITY;
                return;
        }
        if (s->last != who)
                s->n_switches++;
        if (s->last != who || s->turn_ns <= s->now_ns)
                s->turn_ns = s->share_ns > 0 ? s->now_ns + s->share_ns : NSEC_INFINITY;
        s->last = who;
        done_ns = s->now_ns + s->tenants[who].left_ns;
        s->end_ns = MIN(done_ns, s->turn_ns);
}

/* Length of the first of the tenant's launches on the device. */
static uint64_t tenant_first(const SimTenant *t) {
        return t->long_every > 0 && t->n_done % t->long_every == t->long_every - 1 ? t->long_ns : t->kernel_ns;
}

static void device_submit(Sim *s, SimTenant *t) {
        assert(s->tail - s->head < SIM_RING);
        if (s->share_ns == 0)
                s->ring[s->tail++ % SIM_RING] = (uint8_t) (t - s->tenants);
        if (t->n_on_device++ == 0)
                t->left_ns = tenant_first(t);
        if (s->current < 0)
                device_begin(s, (int) (t - s->tenants));
}

static uint32_t tenant_bound(const Sim *s, SimTenant *t) {
        if (t->threshold == 0)
                return UNBOUNDED;
        if (t->fits_of_ns != s->budget_ns) { /* asked at each launch: divided once */
                uint64_t fits = s->budget_ns / t->kernel_ns;

                t->fits = (uint32_t) MIN(fits, (uint64_t) 4000);
                t->fits_of_ns = s->budget_ns;
        }
        return MAX(t->threshold, t->fits);
}

static uint64_t tenant_gap(const Sim *s, SimTenant *t) {
        if (t->late_every_ns == 0 || s->now_ns < t->late_at_ns)
                return s->latencies.gap_ns;
        t->late_at_ns = s->now_ns + t->late_every_ns;
        return s->latencies.gap_ns + t->late_ns;
}

static void launch_end(Sim *s, SimTenant *t) {
        t->n_done++;
        t->done_at_ns = s->now_ns;
        if (--t->n_on_device > 0)
                t->left_ns = tenant_first(t);
        if (s->share_ns == 0)
                s->head++;
        t->outstanding--;
        if (in_flight(t) == 0) {
                t->drained_ns = s->now_ns;
                t->busy_ns += s->now_ns - t->launched_ns;
                if (t->outstanding == 0 || t->verdict == VERDICT_HOLD)
                        mark_dirty(s, t);
        }
        if (t->wait == SIM_FOR_ROOM && in_flight(t) < tenant_bound(s, t))
                t->at_ns = MIN(t->at_ns, s->now_ns + s->latencies.room_ns);
        if (t->wait == SIM_FOR_END && t->outstanding == 0)
                t->at_ns = s->now_ns + tenant_gap(s, t);
}

static void device_end(Sim *s) {
        SimTenant *t = s->tenants + s->current;
        uint64_t ns = s->now_ns - s->from_ns;

        t->device_ns += ns;
        t->left_ns -= ns;
        if (t->left_ns == 0)
                launch_end(s, t);
        if (s->share_ns > 0 && s->turn_ns > s->now_ns && t->n_on_device > 0)
                device_begin(s, s->current);
        else
                device_begin(s, device_next(s));
}

/* --- programs --- */

static void tenant_wait(Sim *s, SimTenant *t, SimWait why) {
        t->waiters++;
        t->wait = why;
        t->at_ns = NSEC_INFINITY;
        if (in_flight(t) == 0 && t->verdict == VERDICT_HOLD)
                mark_dirty(s, t);
}

static void tenant_launch(Sim *s, SimTenant *t) {
        if (t->wait == SIM_AT_GATE || t->wait == SIM_FOR_ROOM)
                t->waiters--;
        if (!t->counted && t->outstanding++ == 0) {
                t->ready_since_ns = s->now_ns;
                mark_dirty(s, t);
        }
        t->counted = true;
        if (t->verdict == VERDICT_HOLD) {
                tenant_wait(s, t, SIM_AT_GATE);
                return;
        }
        if (in_flight(t) > tenant_bound(s, t)) { /* itself counted */
                tenant_wait(s, t, SIM_FOR_ROOM);
                return;
        }
        t->counted = false;
        if (in_flight(t) == 1)
                t->launched_ns = s->now_ns;
        device_submit(s, t);
        t->wait = SIM_RUNS;
        t->at_ns = s->now_ns + s->latencies.launch_ns;
        if (t->pattern == SIM_DEEP)
                return;
        if (t->burst_left > 0)
                t->burst_left--;
        if (t->burst_left == 0) {
                t->wait = SIM_FOR_END;
                t->at_ns = NSEC_INFINITY;
                t->burst_left = tenant_burst(t);
        }
}

/* --- the service --- */

static void on_grant(void *owner, const PolicyGrant *g, void *userdata) {
        SimTenant *t = owner;

        t->grant = *g;
        t->changed = true;
}

/* A stamp of the program, bounded to the time since the last known event. */
static uint64_t believe(const Sim *s, const SimTenant *t, uint64_t stamp_ns) {
        return CLAMP(stamp_ns, t->seen_ns, s->now_ns);
}

/* --- tails --- */

/* The tenant whose tail is the first. */
static SimTenant *overlap_first(Sim *s) {
        SimTenant *first = NULL;

        for (size_t i = 0; i < s->n; i++) {
                SimTenant *t = s->tenants + i;

                if (t->overlaps && (!first || t->overlap.since_ns < first->overlap.since_ns))
                        first = t;
        }
        return first;
}

/* The program's estimate of its launches in flight: their usual length, less the time since the last one ended. */
static uint64_t tenant_flying(const Sim *s, const SimTenant *t) {
        uint64_t since_ns = MAX(t->done_at_ns, t->launched_ns),
                 ns = ns_sub(in_flight(t) * t->mean_ns, s->now_ns - since_ns);

        return t->mean_ns > 0 ? MAX(ns, UINT64_C(1)) : OVERLAP_UNKNOWN;
}

static void overlap_note_runner(Sim *s) {
        const SimTenant *t = overlap_first(s), *r;
        PolicyWait w;

        s->runner = NULL;
        if (!t || !s->ops->entity_wait(t->entity, &w))
                return;
        r = w.runner;
        if (!r || r == t || !r->told_ready || r->grant.verdict == VERDICT_HOLD)
                return;
        s->runner = r;
        s->runner_done = r->n_done;
}

/* Divides the time up to `at_ns`. `ended`: the tenant whose tail has ended then; NULL: none. */
static void overlap_look(Sim *s, const SimTenant *ended, uint64_t at_ns) {
        const SimTenant *r = s->runner;
        SimTenant *t = overlap_first(s);

        if (!t)
                return;
        uint64_t done_ns = r ? (r->n_done - s->runner_done) * r->mean_ns : 0,
                 rest_ns = r && in_flight(r) > 0 ? r->mean_ns : 0,
                 had_ns = overlap_divide(&t->overlap, done_ns, rest_ns, t == ended, at_ns);

        if (r) {
                s->runner_done = r->n_done;
                s->ops->entity_tail_had(t->entity, had_ns, at_ns);
        }
}

/* The next tail has the device from now on. */
static void overlap_end(Sim *s, SimTenant *t, uint64_t at_ns) {
        bool first = t == overlap_first(s);
        SimTenant *next;

        overlap_look(s, t, at_ns);
        t->overlaps = false;
        next = overlap_first(s);
        if (first && next)
                overlap_begin(&next->overlap, next->overlap.own_ns, at_ns);
}

static void tell_drained(Sim *s, SimTenant *t, uint64_t at_ns) {
        if (t->overlaps)
                overlap_end(s, t, at_ns);
        s->ops->entity_drained(t->entity, at_ns);
}

static void tell_ready(Sim *s, SimTenant *t, uint64_t at_ns) {
        overlap_look(s, NULL, at_ns);
        s->ops->entity_ready(t->entity, at_ns);
}

static void tell_idle(Sim *s, SimTenant *t, uint64_t at_ns) {
        if (t->overlaps)
                overlap_end(s, t, at_ns);
        else
                overlap_look(s, NULL, at_ns);
        s->ops->entity_idle(t->entity, at_ns);
}

/* --- edges, by the service --- */

/* Takes the time that the tenant had launches in flight since the last look. */
static uint64_t take_flight(Sim *s, SimTenant *t) {
        uint64_t flight_ns = t->busy_ns + (in_flight(t) > 0 ? s->now_ns - t->launched_ns : 0);
        uint64_t ns = ns_sub(flight_ns, t->flight_ns);

        t->flight_ns = flight_ns;
        ns = MIN(ns, s->now_ns - t->since_ns);
        return ns;
}

/* Accounts what the service missed of a program that is quicker than the service, as in service/core/edges.c. */
static void service_look_between(Sim *s, SimTenant *t, bool ready, uint64_t flight_ns) {
        uint64_t end_ns = ready ? t->launched_ns : t->drained_ns, ran_ns, idle_ns;

        if (t->verdict == VERDICT_HOLD || t->drained_ns <= t->since_ns || t->ready_since_ns <= t->since_ns ||
                        t->launched_ns < t->ready_since_ns || (ready && in_flight(t) == 0))
                return;
        ran_ns = ready ? ns_sub(flight_ns, s->now_ns - end_ns) : flight_ns;
        idle_ns = ns_sub(end_ns - t->since_ns, ran_ns);
        if (t->told_ready && ready) {
                tell_idle(s, t, believe(s, t, end_ns - idle_ns));
                tell_ready(s, t, believe(s, t, end_ns));
        } else if (t->told_ready) {
                uint64_t last_ns = MIN(ran_ns, t->drained_ns - t->launched_ns);

                tell_idle(s, t, believe(s, t, end_ns - last_ns - idle_ns));
                tell_ready(s, t, believe(s, t, end_ns - last_ns));
        } else {
                uint64_t gap_ns = ready ? MIN(idle_ns, end_ns - t->drained_ns) : 0;

                tell_ready(s, t, believe(s, t, end_ns - gap_ns - ran_ns));
                tell_idle(s, t, believe(s, t, end_ns - gap_ns));
        }
}

static void service_look(Sim *s, SimTenant *t) {
        bool ready = t->outstanding > 0;
        uint64_t flight_ns = take_flight(s, t);

        t->dirty = false;
        service_look_between(s, t, ready, flight_ns);
        if (ready && !t->told_ready)
                tell_ready(s, t, believe(s, t, t->ready_since_ns));
        else if (!ready && t->told_ready)
                tell_idle(s, t, believe(s, t, t->drained_ns));
        else if (ready && t->verdict == VERDICT_HOLD && in_flight(t) == 0)
                tell_drained(s, t, believe(s, t, t->drained_ns));
        t->told_ready = ready;
        t->seen_ns = t->since_ns = s->now_ns;
}

static void service_write(Sim *s, SimTenant *t) {
        bool turned = t->grant.verdict != t->verdict;

        t->changed = false;
        t->threshold = t->grant.threshold;
        t->verdict = t->grant.verdict;
        if (turned) {
                (void) take_flight(s, t);
                t->since_ns = s->now_ns;
        }
        if (turned && t->verdict == VERDICT_RUN && t->wait == SIM_AT_GATE)
                t->at_ns = s->now_ns + s->latencies.write_ns + s->latencies.wake_ns;
        if (turned && t->verdict == VERDICT_RUN)
                t->overlaps = false;
        if (!turned || t->verdict == VERDICT_RUN)
                return;
        t->overlaps = in_flight(t) > 0;
        if (t->overlaps)
                overlap_begin(&t->overlap, tenant_flying(s, t), s->now_ns);
        else
                s->ops->entity_drained(t->entity, s->now_ns);
}

static bool service_turn(Sim *s) {
        overlap_look(s, NULL, s->now_ns);
        uint64_t at = s->ops->dispatch(s->policy, s->now_ns);
        bool any = false;

        uint64_t soonest = s->now_ns + 20 * NSEC_PER_USEC;

        for (size_t i = 0; i < s->n; i++)
                if (s->tenants[i].changed) {
                        any = any || s->tenants[i].grant.verdict == VERDICT_HOLD;
                        service_write(s, s->tenants + i);
                }
        overlap_note_runner(s);
        if (s->runner) {
                uint64_t look_at = overlap_look_at(&overlap_first(s)->overlap);

                at = MIN(at, look_at);
        }
        s->timer_ns = at == NSEC_INFINITY ? at : MAX(at, soonest) + s->latencies.timer_ns;
        return any;
}

static void service_wake(Sim *s) {
        s->service_ns = NSEC_INFINITY;
        s->n_wakes++;
        for (size_t i = 0; i < s->n; i++)
                if (s->tenants[i].dirty)
                        service_look(s, s->tenants + i);
        while (service_turn(s))
                ;
}

/* --- the machine --- */

void sim_init(Sim *s) {
        *s = (Sim){
                        .ops = &policy_tree_ops,
                        .latencies = SIM_LATENCIES_DEFAULT,
                        .config = POLICY_CONFIG_DEFAULT,
                        .budget_ns = 500 * NSEC_PER_USEC,
                        .watched = true,
                        .now_ns = NSEC_PER_SEC,
                        .end_ns = NSEC_INFINITY,
                        .service_ns = NSEC_INFINITY,
                        .timer_ns = NSEC_INFINITY,
                        .current = -1,
                        .last = -1,
        };
}

static void sim_need_policy(Sim *s) {
        if (!s->policy && s->ops->new (&s->config, &(PolicyCallbacks){.grant = on_grant}, &s->policy) < 0)
                abort();
}

PolicyNode *sim_add_node(Sim *s, PolicyNode *parent, PolicyNodeSettings settings) {
        PolicyNode *n = NULL;

        sim_need_policy(s);
        if (s->ops->node_new(s->policy, parent, &settings, s->now_ns, &n) < 0)
                abort();
        s->nodes[s->n_nodes++] = n;
        return n;
}

SimTenant *sim_add(Sim *s, SimPattern pattern, uint64_t kernel_ns, PolicySettings settings, PolicyNode *node) {
        SimTenant *t = s->tenants + s->n++;

        *t = (SimTenant){
                        .pattern = pattern,
                        .kernel_ns = kernel_ns,
                        .mean_ns = kernel_ns,
                        .settings = settings,
                        .node = node,
                        .at_ns = s->now_ns + s->n * 7 * NSEC_PER_USEC,
                        .seen_ns = s->now_ns,
        };
        t->burst_left = tenant_burst(t);
        if (!s->watched)
                return t;
        sim_need_policy(s);
        if (s->ops->entity_new(s->policy, node, t, &settings, s->now_ns, &t->entity) < 0)
                abort();
        return t;
}

void sim_run(Sim *s, uint64_t ns) {
        uint64_t end = s->now_ns + ns;

        for (;;) {
                uint64_t next = MIN(s->end_ns, s->service_ns);
                SimTenant *first = NULL;

                next = MIN(next, s->timer_ns);
                for (size_t i = 0; i < s->n; i++)
                        if (s->tenants[i].at_ns < next) {
                                first = s->tenants + i;
                                next = first->at_ns;
                        }
                if (next >= end)
                        break;
                s->now_ns = next;
                if (first)
                        tenant_launch(s, first);
                else if (next == s->end_ns)
                        device_end(s);
                else {
                        s->timer_ns = next == s->timer_ns ? NSEC_INFINITY : s->timer_ns;
                        service_wake(s);
                }
        }
        s->now_ns = end;
        if (s->policy)
                s->ops->device_usage(s->policy, s->now_ns, &s->usage);
}

PolicyUsage sim_usage(const Sim *s, const SimTenant *t) {
        PolicyUsage u;

        s->ops->entity_usage(t->entity, s->now_ns, &u);
        return u;
}

void sim_done(Sim *s) {
        for (size_t i = 0; i < s->n; i++)
                if (s->tenants[i].entity)
                        s->ops->entity_free(s->tenants[i].entity, s->now_ns);
        while (s->n_nodes > 0)
                s->ops->node_free(s->nodes[--s->n_nodes], s->now_ns);
        if (s->policy)
                s->ops->free(s->policy);
}

uint64_t sim_alone(SimPattern pattern, uint64_t kernel_ns, const SimLatencies *l, uint64_t ns) {
        static Sim s;

        sim_init(&s);
        s.latencies = *l;
        s.watched = false;
        (void) sim_add(&s, pattern, kernel_ns, POLICY_SETTINGS_DEFAULT, NULL);
        sim_run(&s, ns);
        return s.tenants[0].n_done;
}

/* --- both kinds of devices --- */

uint64_t sim_share_ns;

int sim_use_first_come(void **state) {
        sim_share_ns = 0;
        return 0;
}

int sim_use_turns(void **state) {
        sim_share_ns = 2 * NSEC_PER_MSEC;
        return 0;
}
