/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Simulates a GPU: whose launches run, and until when
 *
 * Time goes from one event to the next. The launches of a worker that is alone on its GPU are not simulated one by one:
 * their ends count only where the worker has to stop.
 */

#include <math.h>

#include "gpu.h"
#include "job.h"
#include "tools/fleet/fleet.h"

/* Limit of rounds at one time; what is left then happens a nanosecond later. */
#define ROUNDS_MAX 64U

static bool is_shared_by_launch(const Gpu *g) {
        return g->fleet->config.discipline != DISCIPLINE_TIME_SLICING;
}

static bool is_eligible(const Worker *w) {
        return w->ready && w->granted;
}

/* --- the policy --- */

static void on_grant(void *owner, const PolicyGrant *grant, void *userdata) {
        ((Worker *) owner)->granted = grant->verdict == VERDICT_RUN;
}

static void dispatch(Gpu *g, uint64_t now) {
        for (unsigned i = 0; i < ROUNDS_MAX && (g->touched || g->wake_ns <= now); i++) {
                g->touched = false;
                g->wake_ns = g->fleet->ops->dispatch(g->policy, now);
                if (g->wake_ns != NSEC_INFINITY)
                        g->wake_ns = MAX(g->wake_ns, now + NSEC_PER_USEC);
                for (size_t k = 0; k < g->n; k++) {
                        Worker *w = g->workers[k];

                        if (w->granted == w->was_granted)
                                continue;
                        w->was_granted = w->granted;
                        if (w->granted && w->ready && w != g->current) {
                                w->turn = g->n_turns++;
                                w->not_before_ns = now + FLEET_HANDOVER_NS;
                        } else if (!w->granted && w != g->current) {
                                g->fleet->ops->entity_drained(w->entity, now);
                                g->touched = true;
                        }
                }
        }
}

/* --- workers --- */

void gpu_worker_ready(Gpu *g, Worker *w, uint64_t burst_ns, uint64_t now) {
        w->ready = true;
        w->left_ns = burst_ns;
        w->turn = g->n_turns++;
        if (g->policy) {
                g->fleet->ops->entity_ready(w->entity, now);
                g->touched = true;
        }
}

void gpu_worker_idle(Gpu *g, Worker *w, uint64_t now) {
        w->ready = false;
        if (g->current == w)
                g->current = NULL;
        if (g->policy) {
                g->fleet->ops->entity_idle(w->entity, now);
                g->touched = true;
        }
}

/* --- time --- */

static size_t count_ready(const Gpu *g) {
        size_t n = 0;

        for (size_t i = 0; i < g->n; i++)
                n += g->workers[i]->ready;
        return n;
}

static size_t count_ready_training(const Gpu *g) {
        size_t n = 0;

        for (size_t i = 0; i < g->n; i++)
                n += g->workers[i]->ready && !worker_is_service(g->workers[i]);
        return n;
}

static void have(Worker *w, uint64_t ns) {
        FleetResult *r = w->gpu->fleet->result;

        ns = MIN(ns, w->left_ns);
        w->left_ns -= ns;
        w->epoch_ns += ns;
        if (!worker_is_service(w))
                r->done_ns += ns;
}

static void advance(Gpu *g, uint64_t now) {
        FleetResult *r = g->fleet->result;
        uint64_t ns = now - g->now_ns, from = MIN(g->now_ns, r->span_ns);
        size_t n = is_shared_by_launch(g) ? !!g->current : count_ready(g), n_low = count_ready_training(g);

        g->now_ns = now;
        if (ns > 0 && n_low > 0)
                g->wanted_ns += ns;
        if (ns == 0 || n == 0)
                return;
        if (!is_shared_by_launch(g))
                g->low_ns += ns * n_low / n;
        else if (!worker_is_service(g->current))
                g->low_ns += ns;
        r->busy_ns += (double) (MIN(now, r->span_ns) - from);
        if (is_shared_by_launch(g)) {
                have(g->current, ns);
                return;
        }
        for (size_t i = 0; i < g->n; i++)
                if (g->workers[i]->ready)
                        have(g->workers[i], ns / n);
}

/* --- who runs --- */

static bool has_other(const Gpu *g, const Worker *w) {
        for (size_t i = 0; i < g->n; i++)
                if (g->workers[i] != w && is_eligible(g->workers[i]))
                        return true;
        return false;
}

/* Called when the running launch has ended, and another worker's is next. */
static void launch_over(Gpu *g, uint64_t now) {
        Worker *w = TAKE_PTR(g->current);

        w->turn = g->n_turns++;
        if (!w->granted) {
                g->fleet->ops->entity_drained(w->entity, now);
                g->touched = true;
        }
}

/* Returns the end of the running launch; a launch that begins now counts as running. */
static uint64_t end_of_launch(const Gpu *g, uint64_t now) {
        uint64_t launch = g->current->launch_ns, since = now - g->begin_ns;

        return g->begin_ns + MAX(DIV_ROUND_UP(since, launch), (uint64_t) 1) * launch;
}

static void choose(Gpu *g, uint64_t now) {
        Worker *best = NULL;

        for (size_t i = 0; i < g->n && !g->current; i++) {
                Worker *w = g->workers[i];

                if (is_eligible(w) && w->not_before_ns <= now && (!best || w->turn < best->turn))
                        best = w;
        }
        if (best) {
                g->current = best;
                g->begin_ns = now;
        }
        if (!g->current)
                g->cut_ns = NSEC_INFINITY;
        else
                g->cut_ns = g->current->granted && !has_other(g, g->current) ? NSEC_INFINITY : end_of_launch(g, now);
}

static bool is_low_running(const Gpu *g) {
        bool high = false, low = false;

        for (size_t i = 0; i < g->n; i++) {
                const Worker *w = g->workers[i];
                bool service = worker_is_service(w);

                high = high || (service && w->ready);
                low = low || (!service && (is_shared_by_launch(g) ? g->current == w : w->ready));
        }
        return high && low;
}

static void watch_low(Gpu *g, uint64_t now) {
        bool low = is_low_running(g);

        if (low && g->low_since_ns == NSEC_INFINITY)
                g->low_since_ns = now;
        else if (!low && g->low_since_ns != NSEC_INFINITY) {
                if (now > g->low_since_ns)
                        histogram_add(&g->fleet->result->low, now - g->low_since_ns);
                g->low_since_ns = NSEC_INFINITY;
        }
}

static uint64_t next_time(const Gpu *g, uint64_t now) {
        size_t n_ready = count_ready(g);
        uint64_t next = g->policy ? g->wake_ns : NSEC_INFINITY;

        for (size_t i = 0; i < g->n; i++) {
                const Worker *w = g->workers[i];

                next = MIN(next, worker_next(w));
                if (!is_shared_by_launch(g) && w->ready)
                        next = MIN(next, now + w->left_ns * n_ready);
                else if (is_shared_by_launch(g) && !g->current && is_eligible(w))
                        next = MIN(next, w->not_before_ns);
        }
        if (g->current) {
                next = MIN(next, g->cut_ns);
                next = MIN(next, now + g->current->left_ns);
        }
        return next;
}

/* Handles events until nothing more happens at this time. */
void gpu_look(Gpu *g, uint64_t now) {
        advance(g, now);
        for (unsigned i = 0; i < ROUNDS_MAX; i++) {
                g->fleet->result->n_events++;
                for (size_t k = 0; k < g->n; k++)
                        if (g->workers[k]->ready && g->workers[k]->left_ns == 0)
                                worker_burst_over(g->workers[k], now);
                if (g->current && g->cut_ns <= now)
                        launch_over(g, now);
                for (size_t k = 0; k < g->n; k++)
                        worker_look(g->workers[k], now);
                if (g->policy)
                        dispatch(g, now);
                if (is_shared_by_launch(g))
                        choose(g, now);
                g->next_ns = next_time(g, now);
                if (g->next_ns > now)
                        break;
        }
        watch_low(g, now);
        g->next_ns = MAX(g->next_ns, now + 1);
}

/* --- workers of a GPU --- */

static uint32_t weight_of(const Worker *w) {
        return w->job->of->class == CLASS_HEAVY ? 300 : 100;
}

/* Ends an epoch, in which the workers did not change: adds how far the parts of training jobs were from what their
 * weights ask for. */
static void end_epoch(Gpu *g, uint64_t now) {
        double had = 0, weights = 0, off = 0, ns = (double) (now - g->epoch_ns);
        FleetResult *r = g->fleet->result;
        size_t n = 0;
        bool gangs = false;

        for (size_t i = 0; i < g->n; i++) {
                const Worker *w = g->workers[i];

                gangs = gangs || w->job->of->n_gpus > 1;
                if (worker_is_service(w))
                        continue;
                n++;
                had += (double) w->epoch_ns;
                weights += weight_of(w);
        }
        for (size_t i = 0; i < g->n && had > 0; i++) {
                const Worker *w = g->workers[i];

                if (!worker_is_service(w))
                        off = fmax(off, fabs((double) w->epoch_ns / had - weight_of(w) / weights));
        }
        if (n >= 2 && !gangs && now - g->epoch_ns >= FLEET_EPOCH_NS) {
                r->share_ns += ns;
                r->share_off += off * ns;
                r->share_worst = fmax(r->share_worst, off);
                r->n_epochs++;
        }
        for (size_t i = 0; i < g->n; i++)
                g->workers[i]->epoch_ns = 0;
        g->epoch_ns = now;
}

int gpu_add(Gpu *g, Worker *w, uint64_t now) {
        const TraceJob *of = w->job->of;

        advance(g, now);
        end_epoch(g, now);
        w->granted = w->was_granted = true;
        if (g->policy) {
                PolicySettings s = POLICY_SETTINGS_DEFAULT;

                s.priority = worker_is_service(w) ? 50 : -50;
                s.weight = weight_of(w);
                s.party = (PolicyParty){.top = of->user, .owner = of->user, .user = of->user};
                int r = g->fleet->ops->entity_new(g->policy, NULL, w, &s, now, &w->entity);
                if (r < 0)
                        return r;
                g->touched = true;
        }
        g->workers[g->n++] = w;
        g->n_services += worker_is_service(w);
        fleet_look_at(g, now);
        return 0;
}

void gpu_remove(Gpu *g, Worker *w, uint64_t now) {
        advance(g, now);
        end_epoch(g, now);
        if (g->current == w)
                g->current = NULL;
        for (size_t i = 0; i < g->n; i++)
                if (g->workers[i] == w) {
                        memmove(g->workers + i, g->workers + i + 1, (g->n - i - 1) * sizeof(Worker *));
                        g->n--;
                        g->n_services -= worker_is_service(w);
                        break;
                }
        if (w->entity)
                w->entity = g->fleet->ops->entity_free(w->entity, now);
        g->touched = !!g->policy;
        fleet_look_at(g, now);
}

int gpu_new(Gpu *g, Fleet *f, size_t number) {
        *g = (Gpu){
                        .fleet = f,
                        .number = number,
                        .heap = number,
                        .next_ns = NSEC_INFINITY,
                        .cut_ns = NSEC_INFINITY,
                        .wake_ns = NSEC_INFINITY,
                        .low_since_ns = NSEC_INFINITY,
        };
        if (f->config.discipline != DISCIPLINE_XSCHED)
                return 0;
        return f->ops->new (&f->config.policy, &(PolicyCallbacks){.grant = on_grant}, &g->policy);
}

void gpu_done(Gpu *g) {
        if (g->policy)
                g->policy = g->fleet->ops->free(g->policy);
}
