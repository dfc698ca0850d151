/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Forecasts
 */

#include "forecast.h"

#include <utlist.h>

#include "entity.h"
#include "queue.h"
#include "turn.h"

/* --- periods --- */

/* There are few of them: qsort() takes many times as long. */
static void sort_gaps(uint64_t gaps[], unsigned n) {
        for (unsigned i = 1, k; i < n; i++) {
                uint64_t gap = gaps[i];

                for (k = i; k > 0 && gaps[k - 1] > gap; k--)
                        gaps[k] = gaps[k - 1];
                gaps[k] = gap;
        }
}

/* A gap of several periods becomes one of its parts. */
static void split_gaps(uint64_t gaps[static FORECAST_GAPS], uint64_t period_ns) {
        for (unsigned i = 0; i < FORECAST_GAPS; i++) {
                uint64_t ns = gaps[i] + period_ns / 2;

                if (ns >= 2 * period_ns)
                        gaps[i] /= ns / period_ns;
        }
}

/* Finds the period of n sorted gaps, without the `odd` longest and shortest. Returns whether they are exact enough. */
static bool find_period(const uint64_t sorted[], unsigned n, unsigned odd, uint64_t *ret_period, uint64_t *ret_spread) {
        uint64_t period = sorted[n / 2];
        uint64_t spread = MAX(period - sorted[odd], sorted[n - 1 - odd] - period) + FORECAST_MARGIN_NS;

        *ret_period = period;
        *ret_spread = spread;
        return period <= FORECAST_PERIOD_MAX_NS && 2 * spread <= period / FORECAST_PART;
}

static bool learn_from_all(const Forecast *f, uint64_t *ret_period_ns, uint64_t *ret_spread_ns) {
        uint64_t sorted[FORECAST_GAPS];

        if (f->n < FORECAST_GAPS)
                return false;
        memcpy(sorted, f->gaps, sizeof(sorted));
        sort_gaps(sorted, FORECAST_GAPS);
        split_gaps(sorted, MAX(sorted[FORECAST_GAPS / 2], (uint64_t) FORECAST_PERIOD_MIN_NS));
        sort_gaps(sorted, FORECAST_GAPS);
        return find_period(sorted, FORECAST_GAPS, FORECAST_ODD, ret_period_ns, ret_spread_ns);
}

static bool learn_from_newest(const Forecast *f, uint64_t *ret_period_ns, uint64_t *ret_spread_ns) {
        unsigned n = f->n_missed < FORECAST_MISSES ? FORECAST_FEW : FORECAST_FEW + 1;
        uint64_t sorted[FORECAST_FEW + 1];

        if (f->n < n)
                return false;
        for (unsigned i = 0; i < n; i++)
                sorted[i] = f->gaps[(f->next + FORECAST_GAPS - 1 - i) % FORECAST_GAPS];
        sort_gaps(sorted, n);
        return find_period(sorted, n, 0, ret_period_ns, ret_spread_ns);
}

bool forecast_learn(Forecast *f, uint64_t gap_ns, uint64_t *ret_period_ns, uint64_t *ret_spread_ns) {
        f->gaps[f->next] = gap_ns;
        f->next = (f->next + 1) % FORECAST_GAPS;
        f->n = MIN(f->n + 1, FORECAST_GAPS);
        return learn_from_all(f, ret_period_ns, ret_spread_ns) || learn_from_newest(f, ret_period_ns, ret_spread_ns);
}

/* --- entities that are due --- */

typedef struct Window {
        uint64_t open, close;
        uint64_t from; /* the entity is not expected earlier */
        bool leads;    /* to the next one, which opens when it closes */
} Window;

static bool window_of(const Entity *e, uint64_t now, Window *ret);

static unsigned n_due(const Device *d) {
        const Entity *e;
        unsigned n = 0;

        DL_FOREACH2(d->forecasts, e, forecast.after)
                n++;
        return n;
}

void forecast_forget(Entity *e) {
        if (!e->forecast.listed)
                return;
        e->device->forecast_stale = true;
        e->forecast.due_at = e->forecast.beat_at = e->forecast.hinted_at = 0;
        e->forecast.listed = false;
        DL_DELETE2(e->device->forecasts, e, forecast.before, forecast.after);
}

/* Finds whom the entity may displace from a list that is full: one that is not expected any more, or else the one of
 * lowest priority, if that is below the entity's. */
static Entity *find_dispensable(const Entity *e, uint64_t now) {
        Entity *other, *lowest = NULL;
        Window w;

        DL_FOREACH2(e->device->forecasts, other, forecast.after) {
                if (!other->told_ready && !window_of(other, now, &w))
                        return other;
                if (!lowest || other->settings.priority < lowest->settings.priority)
                        lowest = other;
        }
        return lowest && lowest->settings.priority < e->settings.priority ? lowest : NULL;
}

static bool list_add(Entity *e, uint64_t now) {
        if (e->forecast.listed)
                return true;
        if (n_due(e->device) >= FORECAST_MAX) {
                Entity *other = find_dispensable(e, now);
                if (!other)
                        return false;
                forecast_forget(other);
        }
        e->forecast.listed = true;
        DL_APPEND2(e->device->forecasts, e, forecast.before, forecast.after);
        return true;
}

static uint64_t distance(uint64_t a, uint64_t b) {
        return a > b ? a - b : b - a;
}

/* After a visit at an odd moment the next may come by the former beat, or a period after this visit: it is expected
 * from the earlier on. Two odd ones in a row make a new beat. */
static void expect_next(Forecast *f, uint64_t at) {
        uint64_t beat = f->beat_at, missed = beat > 0 ? (ns_sub(at, beat) + f->period_ns / 2) / f->period_ns : 0;

        beat += missed * f->period_ns;
        f->odd = beat > 0 && !f->odd && distance(at, beat) > f->spread_ns;
        f->beat_at = (f->odd ? beat : at) + f->period_ns;
        f->due_at = MIN(f->beat_at, at + f->period_ns);
        f->due_last = MAX(f->beat_at, at + f->period_ns);
}

/* Of equals nobody yields. */
static bool may_have_others_yield(const Entity *e) {
        return e->settings.priority > e->device->nobody_below;
}

/* --- pauses of a visit --- */

/* The entity has left, and may be back in a moment. */
static void pause_begins(Forecast *f) {
        uint64_t most = ns_sub(f->period_ns / FORECAST_PAUSE_PART, f->paused_ns);
        uint64_t usual = MIN(f->pause_ns + f->pause_ns / 4, (uint64_t) FORECAST_PAUSE_NS);
        uint64_t wait = f->due_at > 0 ? MIN(usual, most) : 0;

        f->pauses_until = f->left_at + wait;
        f->paused_ns += wait;
}

static void pause_ends(Forecast *f, uint64_t ns) {
        if (ns < FORECAST_PAUSE_NS)
                f->pause_ns = MAX(f->pause_ns, ns);
        f->paused_ns -= ns_sub(f->pauses_until, f->left_at + ns);
        f->pauses_until = 0;
}

/* A visit begins, `gap_ns` after the last one. Where that is less than a period, it does not have the whole time for
 * pauses again. */
static void pauses_fade(Forecast *f, uint64_t gap_ns) {
        f->pause_ns -= f->pause_ns / FORECAST_PAUSE_FADES;
        if (f->pause_ns < FORECAST_PAUSE_MIN_NS)
                f->pause_ns = 0;
        f->paused_ns = ns_sub(f->paused_ns, gap_ns / FORECAST_PAUSE_PART);
        f->pauses_until = 0;
}

void forecast_came(Entity *e, uint64_t at) {
        Forecast *f = &e->forecast;
        uint64_t gap = ns_sub(at, f->came_at), pause = ns_sub(at, f->left_at);

        if (f->came_at > 0 && (gap < FORECAST_PERIOD_MIN_NS || pause < FORECAST_PAUSE_NS)) {
                pause_ends(f, pause);
                /* A hint may expect more of the same visit. */
                if (ns_add(at, FORECAST_HINT_NS) >= f->hinted_at)
                        f->hinted_at = 0;
                return;
        }
        if ((f->due_at > 0 || f->hinted_at > 0) && may_have_others_yield(e)) {
                bool expected = e->device->yields_below >= e->settings.priority;

                f->n_visits++;
                f->n_expected += expected;
                f->n_missed = expected ? 0 : f->n_missed + 1;
        }
        pauses_fade(f, gap);
        bool known = f->came_at > 0 && forecast_learn(f, gap, &f->period_ns, &f->spread_ns);
        f->came_at = at;
        f->hinted_at = 0;
        f->charged_at = MIN(f->charged_at, at);
        if (known && list_add(e, at)) {
                expect_next(f, at);
                e->device->forecast_stale = true;
        } else if (f->listed)
                forecast_forget(e);
}

void forecast_left(Entity *e, uint64_t at) {
        Forecast *f = &e->forecast;

        f->left_at = at;
        pause_begins(f);
}

/* --- how long a window takes to free the device --- */

static void openings_set(Openings *o, uint64_t ns) {
        uint64_t slowest_ns = 0;

        o->took_ns[o->newest] = ns;
        for (unsigned i = 0; i < FORECAST_OPENINGS; i++)
                slowest_ns = MAX(slowest_ns, o->took_ns[i]);
        o->slowest_ns = slowest_ns;
}

static void openings_begin(Openings *o, uint64_t planned_at, uint64_t now) {
        o->newest = (o->newest + 1) % FORECAST_OPENINGS;
        o->planned_at = planned_at;
        o->began_at = now;
        openings_set(o, now - planned_at);
}

/* Whether an order was given as the newest window began, and by how much later than planned. */
static bool openings_ordered(const Openings *o, uint64_t at, uint64_t *ret_late_ns) {
        if (at < o->began_at || at - o->began_at > FORECAST_MARGIN_NS)
                return false;
        *ret_late_ns = at - o->planned_at;
        return true;
}

void forecast_stopped(Device *d, uint64_t ordered_at, uint64_t took_ns) {
        Openings *o = &d->openings;
        uint64_t late, took = MIN(took_ns, d->costs.hold_ns * COSTS_SPREAD);

        if (!openings_ordered(o, ordered_at, &late) || late + took <= o->took_ns[o->newest])
                return;
        openings_set(o, late + took);
        d->forecast_stale = true;
}

void forecast_drained(Device *d, uint64_t held_at, uint64_t ns) {
        uint64_t late = 0, drain;

        (void) openings_ordered(&d->openings, held_at, &late);
        drain = MIN(ns_add(ns, late), (uint64_t) FORECAST_PERIOD_MAX_NS);
        d->drain_ns = MAX(drain, d->drain_ns - ns_sub(d->drain_ns, drain) / FORECAST_DRAINS);
        d->forecast_stale = true;
}

/* --- windows --- */

static bool device_forecasts(const Device *d) {
        return d->config.linger_ns > 0 && device_grants_in_force(d) &&
                        (streq(d->ops->name, "tree") || streq(d->ops->name, "hpf"));
}

/* Returns how long before the entity is due others have to be held: the time that it takes to stop a running entity,
 * and a margin. */
static uint64_t lead_of(const Entity *e) {
        return e->device->costs.hold_ns + e->device->costs.hold_ns / 4;
}

/* Finds the window for an entity that is due from `first` to `last`. A window costs others its length at most, which
 * may be 1/FORECAST_PART of the time since `since`. What it does not need of that, it uses to wait for an entity that
 * is late. */
static bool make_window(const Entity *e, uint64_t first, uint64_t last, uint64_t spread, uint64_t since, Window *ret) {
        uint64_t most = ns_sub(ns_sub(first, since) / FORECAST_PART, e->forecast.paused_ns);
        uint64_t room = ns_sub(most, last - first + 2 * spread);
        uint64_t lead = lead_of(e), drain = e->device->drain_ns;

        if (room == 0 || (first < last && room < lead))
                return false;
        if (drain <= room)
                lead = MAX(lead, drain);
        lead = MAX(lead, e->device->openings.slowest_ns);
        ret->from = ns_sub(first, spread);
        ret->open = ns_sub(ret->from, MIN(lead, room));
        ret->close = MIN(ret->open + most, last + spread + FORECAST_LATE_NS);
        ret->leads = false;
        return true;
}

/* The time before that counted for a window already, or for the last visit. */
static uint64_t charged_until(const Forecast *f) {
        return MAX(f->came_at, f->charged_at);
}

static bool period_window(const Entity *e, Window *ret) {
        const Forecast *f = &e->forecast;
        uint64_t next = f->came_at + f->period_ns, since = charged_until(f);

        return f->due_at > 0 &&
                        (make_window(e, f->due_at, f->due_last, f->spread_ns, since, ret) ||
                                        make_window(e, next, next, f->spread_ns, since, ret));
}

static bool hint_window(const Entity *e, Window *ret) {
        uint64_t at = e->forecast.hinted_at;

        return at > 0 && make_window(e, at, at, FORECAST_HINT_NS, e->forecast.hint_from, ret);
}

/* A pause, and the window of a hint from where that opens in it. Both have been paid for, and those below yield in
 * both; but only in a window it is known from when on the entity is expected. */
static Window pause_window(const Forecast *f, uint64_t now, const Window *hint) {
        Window pause = {.open = f->left_at, .close = f->pauses_until, .from = f->left_at};

        if (!hint || hint->open >= pause.close)
                return pause;
        if (now >= hint->open)
                return (Window){.open = hint->open, .close = MAX(hint->close, pause.close), .from = hint->from};
        pause.close = hint->open;
        pause.leads = true;
        return pause;
}

/* Finds the window in which the next job is expected: by a hint, or else by its period. Returns whether there is
 * one. */
static bool window_of(const Entity *e, uint64_t now, Window *ret) {
        const Forecast *f = &e->forecast;
        Window hint;

        if (!e->policy || e->told_ready)
                return false;
        bool hinted = hint_window(e, &hint) && now < hint.close;
        if (now < f->pauses_until) {
                *ret = pause_window(f, now, hinted ? &hint : NULL);
                return true;
        }
        if (hinted) {
                *ret = hint;
                return true;
        }
        return period_window(e, ret) && now < ret->close;
}

void forecast_heard(Queue *q, uint64_t at) {
        uint64_t now = now_ns();
        Entity *e = q->entity;
        Window w;

        q->expected_ns = at;
        if (!e || at <= now || at > now + FORECAST_HINT_MAX_NS)
                return;
        Forecast *f = &e->forecast;
        uint64_t from = charged_until(f);
        if (period_window(e, &w) && now >= w.open)
                from = MAX(from, w.close);
        if (!make_window(e, at, at, FORECAST_HINT_NS, from, &w) || !list_add(e, now))
                return;
        f->hinted_at = f->charged_at = at;
        f->hint_from = from;
        e->device->forecast_stale = true;
        device_touch(e->device);
}

/* `anew`: another is expected than those for which it was chosen how far holds reach. Returns whether it yields. */
static bool entity_yield(Entity *e, bool anew) {
        bool yields = e->settings.priority < e->device->yields_below, changed = e->yields != yields;

        e->yields = yields;
        /* One that is held already, for another reason. What is off the device stays off: it is not let go for a
         * pause. */
        if (yields && (changed || anew) && e->choice.level < LEVEL_DEQUEUE)
                entity_reconsider(e);
        if (changed)
                entity_words_changed(e);
        return yields;
}

void forecast_ranked(Entity *e) {
        bool before = e->yields;

        if (entity_yield(e, false) != before)
                device_touch(e->device);
}

static void device_yield(Device *d, int below, bool anew) {
        bool any = false;
        Entity *e;

        d->yields_below = below;
        DL_FOREACH2(d->entities, e, device_next)
                any |= entity_yield(e, anew);
        if (!any)
                d->nobody_below = MAX(d->nobody_below, below);
}

void forecast_turn(Device *d, uint64_t now) {
        uint64_t next = NSEC_INFINITY, expected = NSEC_INFINITY;
        int below = POLICY_LEVEL_NONE;
        bool opens = false;
        const Entity *e;
        Window w;

        if (d->forecast_opens && now >= d->forecast_at)
                openings_begin(&d->openings, d->forecast_at, now);
        if (device_forecasts(d))
                DL_FOREACH2(d->forecasts, e, forecast.after) {
                        if (!may_have_others_yield(e) || !window_of(e, now, &w))
                                continue;
                        bool open = now >= w.open;
                        if (open) {
                                below = MAX(below, e->settings.priority);
                                /* One that is late, or in a pause, is not the one to be in time for. */
                                if (w.from > now)
                                        expected = MIN(expected, w.from);
                        }
                        uint64_t at = open ? w.close : w.open;
                        if (at < next)
                                opens = !open || w.leads;
                        next = MIN(next, at);
                }
        bool anew = expected != NSEC_INFINITY && expected != d->expected_at;
        d->expected_at = expected == NSEC_INFINITY ? now : expected;
        if (below != d->yields_below || anew)
                device_yield(d, below, anew);
        d->forecast_at = next;
        d->forecast_opens = opens;
        d->forecast_hold_ns = d->costs.hold_ns;
        d->forecast_stale = false;
}
