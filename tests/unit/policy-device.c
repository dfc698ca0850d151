/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The simulated device, quantised and fluid; see policy-device.h.
 */

#include "policy-device.h"

static uint64_t worker_draw(Worker *w, const uint64_t range[2]) {
        return range[0] == NSEC_INFINITY ? NSEC_INFINITY : random_range(&w->random, range[0], range[1]);
}

static void worker_begin_burst(Worker *w) {
        w->left_ns = worker_draw(w, w->burst_ns);
        w->ready = true;
}

static void worker_begin_pause(Worker *w, uint64_t now_ns) {
        w->pause_until_ns = ns_add(now_ns, worker_draw(w, w->pause_ns));
        w->ready = false;
        w->n_bursts++;
}

static void worker_init(Worker *w) {
        w->random = (Random){.state = w->seed};
        w->n_bursts = 0;
        worker_begin_burst(w);
}

/* --- under a policy --- */

static uint64_t device_next(const Device *d, const Harness *h, uint64_t end_ns) {
        uint64_t next = MIN(end_ns, h->wake_ns);

        for (size_t i = 0; i < d->n; i++) {
                const Worker *w = d->workers + i;
                uint64_t t = NSEC_INFINITY;

                if (!w->ready)
                        t = w->pause_until_ns;
                else if (job_runs(w->job))
                        t = ns_add(h->now_ns, w->left_ns);
                next = MIN(next, t);
        }
        return next;
}

static void device_work(Device *d, uint64_t ns) {
        for (size_t i = 0; i < d->n; i++) {
                Worker *w = d->workers + i;

                if (job_runs(w->job) && w->left_ns != NSEC_INFINITY)
                        w->left_ns -= ns;
        }
}

static void device_change(Device *d, const Harness *h) {
        for (size_t i = 0; i < d->n; i++) {
                Worker *w = d->workers + i;

                if (w->ready && w->left_ns == 0) {
                        worker_begin_pause(w, h->now_ns);
                        harness_idle(w->job);
                } else if (!w->ready && w->pause_until_ns <= h->now_ns) {
                        worker_begin_burst(w);
                        harness_ready(w->job);
                }
        }
}

void device_run(Device *d, Harness *h, uint64_t ns) {
        uint64_t end = ns_add(h->now_ns, ns);

        for (size_t i = 0; i < d->n; i++) {
                Worker *w = d->workers + i;

                worker_init(w);
                w->job = harness_add(h, w->settings);
                harness_ready(w->job);
        }
        harness_dispatch(h);
        while (h->now_ns < end) {
                uint64_t step = device_next(d, h, end) - h->now_ns;

                harness_pass(h, step);
                device_work(d, step);
                device_change(d, h);
                harness_dispatch(h);
        }
}

/* --- fluid --- */

/* The part of a slot that one unit of weight gets. A worker whose weight is worth a slot gets just that, and the other
 * workers divide the rest by weight. */
static double fluid_unit(const Device *d, uint32_t slots) {
        double unit = 0;

        for (size_t round = 0; round <= d->n; round++) {
                double weight = 0, left = slots;

                for (size_t i = 0; i < d->n; i++) {
                        const Worker *w = d->workers + i;

                        if (!w->ready)
                                continue;
                        if (round > 0 && w->settings.weight * unit >= 1)
                                left -= 1;
                        else
                                weight += w->settings.weight;
                }
                if (weight == 0)
                        return 1; /* as many slots as workers: a whole slot each */
                unit = MAX(unit, left / weight);
        }
        return unit;
}

static double fluid_rate(const Worker *w, double unit) {
        double rate = unit * w->settings.weight;

        return MIN(rate, 1.0);
}

void device_run_fluid(Device *d, uint32_t slots, uint64_t ns) {
        double now = 0, end = (double) ns;

        for (size_t i = 0; i < d->n; i++) {
                Worker *w = d->workers + i;

                worker_init(w);
                w->fluid_left = (double) w->left_ns;
                w->fluid_done = 0;
        }
        while (now < end) {
                double unit = fluid_unit(d, slots), step = end - now;

                for (size_t i = 0; i < d->n; i++) {
                        const Worker *w = d->workers + i;
                        double t = w->ready ? w->fluid_left / fluid_rate(w, unit) : (double) w->pause_until_ns - now;

                        t = MAX(t, 0.5);
                        step = MIN(step, t);
                }
                now += step;
                for (size_t i = 0; i < d->n; i++) {
                        Worker *w = d->workers + i;

                        if (w->ready) {
                                w->fluid_left -= step * fluid_rate(w, unit);
                                w->fluid_done += step * fluid_rate(w, unit);
                        }
                }
                for (size_t i = 0; i < d->n; i++) {
                        Worker *w = d->workers + i;

                        if (w->ready && w->fluid_left < 1)
                                worker_begin_pause(w, (uint64_t) now);
                        else if (!w->ready && (double) w->pause_until_ns <= now + 0.5) {
                                worker_begin_burst(w);
                                w->fluid_left = (double) w->left_ns;
                        }
                }
        }
}
