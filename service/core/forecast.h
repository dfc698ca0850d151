/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Forecasts: make room for an entity with a period before it is due
 *
 * A job of high priority waits for others' launches on the device to end or be stopped: most of a millisecond, where
 * the job itself takes half of one. A job with a period (a camera's, a control loop's) need not wait: entities of lower
 * priority are held a little before it is due, as if it had come.
 *
 *   - Learning: the gaps between the moments at which an entity became ready. Of the last FORECAST_GAPS gaps, the
 *     longest and the shortest are dropped; the median of the others is the period, and the farthest from it says how
 *     exact it is. A moment within FORECAST_PERIOD_MIN_NS of the one before belongs to the same visit.
 *   - The window: it begins as long before the due time as it takes to stop a running entity, and ends when the
 *     expected one is later than usual. There is none if it would be longer than 1/FORECAST_PART of the period.
 *   - In the window, entities of lower priority yield: they are held, as far as the ladder chooses. It ends when
 *     the entity comes, and there is no other window before that.
 *
 * So an entity with a period costs those below at most 1/FORECAST_PART of their time beside its own work, and one that
 * does not come costs them one window. The policy knows nothing of windows: the time in them counts as the yielding
 * entities' time. Linger=0 turns forecasts off, as it does all keeping of a device for an entity; and a policy without
 * priorities has none.
 *
 * At most FORECAST_MAX entities of a device have forecasts at a time.
 */

#include <stdbool.h>
#include <stdint.h>

#include "common/time-util.h"

#define FORECAST_GAPS          8U
#define FORECAST_PERIOD_MIN_NS (5 * NSEC_PER_MSEC)
#define FORECAST_PERIOD_MAX_NS (2 * NSEC_PER_SEC)
#define FORECAST_MARGIN_NS     (100 * NSEC_PER_USEC)
#define FORECAST_PART          10U
#define FORECAST_MAX           16U

typedef struct Device Device;
typedef struct Entity Entity;

typedef struct Forecast {
        uint64_t gaps[FORECAST_GAPS];
        unsigned n, next;
        uint64_t came_at;           /* 0: never */
        uint64_t due_at, spread_ns; /* when it is due again, plus or minus spread_ns; 0: not known */
        bool listed;                /* on Device.forecasts */
        Entity *before, *after;
} Forecast;

/* Learns a gap. Returns whether there is a period now, and the period and its spread in ns. Pure. */
bool forecast_learn(Forecast *f, uint64_t gap_ns, uint64_t *ret_period_ns, uint64_t *ret_spread_ns);

/* Called when the entity became ready. */
void forecast_came(Entity *e, uint64_t at);

/* Sets Entity.yields of all entities of the device, after its policy was dispatched and before words are written.
 * Returns when to call it again; NSEC_INFINITY: at the next event. */
uint64_t forecast_turn(Device *d, uint64_t now);

/* Called before the entity is freed. */
void forecast_forget(Entity *e);
