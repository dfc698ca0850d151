/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Forecasts
 */

#include "forecast.h"

#include <utlist.h>

#include "entity.h"
#include "turn.h"

/* --- periods --- */

static int compare_ns(const void *a, const void *b) {
        const uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

        return x < y ? -1 : x > y;
}

bool forecast_learn(Forecast *f, uint64_t gap_ns, uint64_t *ret_period_ns, uint64_t *ret_spread_ns) {
        uint64_t sorted[FORECAST_GAPS];

        f->gaps[f->next] = gap_ns;
        f->next = (f->next + 1) % FORECAST_GAPS;
        f->n = MIN(f->n + 1, FORECAST_GAPS);
        if (f->n < FORECAST_GAPS)
                return false;
        memcpy(sorted, f->gaps, sizeof(sorted));
        qsort(sorted, FORECAST_GAPS, sizeof(sorted[0]), compare_ns);
        uint64_t period = sorted[FORECAST_GAPS / 2];
        *ret_period_ns = period;
        *ret_spread_ns = MAX(period - sorted[1], sorted[FORECAST_GAPS - 2] - period) + FORECAST_MARGIN_NS;
        return period <= FORECAST_PERIOD_MAX_NS && 2 * *ret_spread_ns <= period / FORECAST_PART;
}

/* --- who is due --- */

static unsigned n_due(const Device *d) {
        const Entity *e;
        unsigned n = 0;

        DL_FOREACH2(d->forecasts, e, forecast.after)
                n++;
        return n;
}

void forecast_forget(Entity *e) {
        e->forecast.due_at = 0;
        if (!e->forecast.listed)
                return;
        e->forecast.listed = false;
        DL_DELETE2(e->device->forecasts, e, forecast.before, forecast.after);
}

void forecast_came(Entity *e, uint64_t at) {
        Forecast *f = &e->forecast;
        uint64_t gap = ns_sub(at, f->came_at), period;

        if (f->came_at > 0 && gap < FORECAST_PERIOD_MIN_NS)
                return;
        bool known = f->came_at > 0 && forecast_learn(f, gap, &period, &f->spread_ns);
        f->came_at = at;
        if (!known || (!f->listed && n_due(e->device) >= FORECAST_MAX)) {
                forecast_forget(e);
                return;
        }
        f->due_at = at + period;
        if (f->listed)
                return;
        f->listed = true;
        DL_APPEND2(e->device->forecasts, e, forecast.before, forecast.after);
}

/* --- windows --- */

static bool device_forecasts(const Device *d) {
        return d->config.linger_ns > 0 && device_grants_in_force(d) &&
                        (streq(d->ops->name, "tree") || streq(d->ops->name, "hpf"));
}

/* Finds the window in which the next job is expected. Returns whether there is one. */
static bool window_of(const Entity *e, uint64_t *ret_open, uint64_t *ret_close) {
        const Forecast *f = &e->forecast;
        uint64_t lead = e->device->costs.hold_ns, length = lead + 2 * f->spread_ns;

        if (!e->policy || e->told_ready || f->due_at == 0 || length > (f->due_at - f->came_at) / FORECAST_PART)
                return false;
        *ret_open = ns_sub(f->due_at, f->spread_ns + lead);
        *ret_close = f->due_at + f->spread_ns;
        return true;
}

static void device_yield(Device *d, int below) {
        Entity *e;

        d->yields_below = below;
        DL_FOREACH2(d->entities, e, device_next) {
                bool yields = e->settings.priority < below;
                if (e->yields == yields)
                        continue;
                e->yields = yields;
                entity_words_changed(e);
        }
}

uint64_t forecast_turn(Device *d, uint64_t now) {
        uint64_t next = NSEC_INFINITY, open, close;
        int below = POLICY_LEVEL_NONE;
        const Entity *e;

        if (device_forecasts(d))
                DL_FOREACH2(d->forecasts, e, forecast.after) {
                        if (!window_of(e, &open, &close) || now >= close)
                                continue;
                        if (now >= open)
                                below = MAX(below, e->settings.priority);
                        next = MIN(next, now >= open ? close : open);
                }
        if (below != d->yields_below)
                device_yield(d, below);
        return next;
}
