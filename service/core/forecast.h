/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Forecasts: make room for an entity with a period before it is due
 *
 * A job of high priority waits for others' launches on the device to end or be stopped: most of a millisecond, where
 * the job itself takes half of one. A job with a period (a camera's, a control loop's) need not wait: entities of lower
 * priority are held a little before it is due, as if it had come.
 *
 *   - Learning: the gaps between the moments at which an entity became ready. A gap of several periods, where visits
 *     were left out, counts as so many of its parts. Of the last FORECAST_GAPS gaps, the FORECAST_ODD longest and as
 *     many of the shortest are dropped; the median of the others is the period, and the farthest from it says how exact
 *     it is. Before there are so many, and where they disagree, the newest FORECAST_FEW count, none dropped and none
 *     divided, if they agree: most jobs are expected from their fourth visit on. Gaps of no period agree now and then,
 *     too, which costs a window. So after FORECAST_MISSES visits in a row outside of their windows one gap more has to
 *     agree. A moment within FORECAST_PERIOD_MIN_NS of the visit's first one belongs to the same visit, and so does one
 *     after a pause below FORECAST_PAUSE_NS: a stream of launches comes only once. A job that is late once may come by
 *     its former beat again, or a period after that visit: both are expected.
 *   - The window: it begins as long before the due time as it takes to stop a running entity, or until launches in
 *     flight have ended, and is at most 1/FORECAST_PART of the period. Where launches in flight take longer than that
 *     allows, it does not wait for them. Where stopping does, it begins as early as is allowed: the first stops of a
 *     process take several times as long as the later ones. There is none for an entity whose moments are too inexact
 *     for that. It waits FORECAST_LATE_NS longer for an entity that is late, if the limit allows that.
 *   - How long it takes from the time at which a window should begin until all that it stops is off the device, varies:
 *     the service and the stopped processes sleep, and wake up late by a tenth of a millisecond, or by two where a
 *     hypervisor has taken the CPU away. So within the same limit a window begins as early as the slowest of the last
 *     FORECAST_OPENINGS asks for. What a client says of its part counts up to COSTS_SPREAD times the device's estimate.
 *   - In the window, entities of lower priority yield: they are held, as far as the ladder chooses, which knows from
 *     when on the entity is expected. One with a turn of the floor does not: it would lose the turn, and wait for all
 *     others' turns again. The window ends when the entity comes, and there is no other window before that.
 *   - A visit may have pauses: a program that launches many small kernels is now and then too late for the next one.
 *     Whoever gets the device for those microseconds costs the visit a launch of his or a stop. So where visits had
 *     pauses, those below also yield when the entity becomes idle, for as long as the longest of late, which fades with
 *     each visit, and a quarter more, FORECAST_PAUSE_NS at most; in a visit for 1/FORECAST_PAUSE_PART of the period at
 *     most, and of the time since the last visit where that is shorter. The next window is shorter by that.
 *
 * So an entity with a period costs those below, beside its own work, at most 1/FORECAST_PART of the time from one visit
 * to the next, and one that does not come costs them one window. The policy knows nothing of windows: the time in them
 * counts as the yielding entities' time. Linger=0 turns forecasts off, as it does all keeping of a device for an
 * entity; and a policy without priorities has none.
 *
 * A client can also say when it launches next (the hint "WillLaunch"): then that moment counts, with FORECAST_HINT_NS
 * on both sides, until the entity has come. The limit is the same, of the time since the entity came, or since a hint
 * expected it, or its period's window ended, whichever is later; a hint beyond it is not taken. A period's window
 * counts the time since the last hint only. One that comes late for its window opens it at once, in a pause, too.
 *
 * Where no entity has a lower priority, nobody yields: no windows are made.
 *
 * At most FORECAST_MAX entities of a device have forecasts at a time. One that did not come when it was expected makes
 * room for another, and else one of lower priority does.
 */

#include <stdbool.h>
#include <stdint.h>

#include "common/time-util.h"

#define FORECAST_GAPS          12U
#define FORECAST_ODD           3U
#define FORECAST_FEW           2U
#define FORECAST_MISSES        2U
#define FORECAST_LATE_NS       (2 * NSEC_PER_MSEC)
#define FORECAST_PERIOD_MIN_NS (5 * NSEC_PER_MSEC)
#define FORECAST_PERIOD_MAX_NS (2 * NSEC_PER_SEC)
#define FORECAST_PAUSE_NS      (500 * NSEC_PER_USEC)
#define FORECAST_MARGIN_NS     (100 * NSEC_PER_USEC)
#define FORECAST_PART          10U
#define FORECAST_PAUSE_PART    40U
#define FORECAST_PAUSE_FADES   32U
#define FORECAST_PAUSE_MIN_NS  (10 * NSEC_PER_USEC)
#define FORECAST_MAX           16U
#define FORECAST_DRAINS        16U
#define FORECAST_OPENINGS      128U
#define FORECAST_HINT_NS       (300 * NSEC_PER_USEC)
#define FORECAST_HINT_MAX_NS   (2 * NSEC_PER_SEC) /* no hint reaches further */

typedef struct Device Device;
typedef struct Entity Entity;
typedef struct Queue Queue;

typedef struct Forecast {
        uint64_t gaps[FORECAST_GAPS];
        unsigned n, next;
        uint64_t came_at;      /* 0: never */
        uint64_t left_at;      /* when it was idle last */
        uint64_t pause_ns;     /* the longest pause of late visits, less what has faded; 0: they have none */
        uint64_t paused_ns;    /* for how long those below have yielded in pauses, less what visits gave back */
        uint64_t pauses_until; /* those below yield for its pause until then */
        uint64_t period_ns, spread_ns;
        uint64_t due_at, due_last;     /* from when until when it is due again, plus or minus spread_ns; 0: not known */
        uint64_t beat_at;              /* when it is due by its beat; 0: not known */
        bool odd;                      /* it came at another time than that */
        uint64_t hinted_at;            /* when a hint expects it; 0: there is none */
        uint64_t hint_from;            /* the time before it that counts */
        uint64_t charged_at;           /* of the last hint that was taken, or came_at if that was earlier */
        uint64_t n_visits, n_expected; /* visits while its due time was known; those in a window */
        unsigned n_missed;             /* the last of these in a row that were in none */
        bool listed;                   /* on Device.forecasts */
        Entity *before, *after;
} Forecast;

/* How long the last windows of a device took, from when they should begin until what they stop was off the device. */
typedef struct Openings {
        uint64_t took_ns[FORECAST_OPENINGS];
        unsigned newest;
        uint64_t slowest_ns;           /* the longest of them */
        uint64_t planned_at, began_at; /* of the newest */
} Openings;

/* Learns a gap. Returns whether there is a period now, and the period and its spread in ns. Pure. */
bool forecast_learn(Forecast *f, uint64_t gap_ns, uint64_t *ret_period_ns, uint64_t *ret_spread_ns);

/* Called when launches that were in flight when their queue was held at `held_at` have ended, after `ns`. The device's
 * estimate is the longest of late: a shorter time lowers it by 1/FORECAST_DRAINS of the difference. */
void forecast_drained(Device *d, uint64_t held_at, uint64_t ns);

/* Called when a queue that was told to stop at `ordered_at` had obeyed after `took_ns`, by its client's word. */
void forecast_stopped(Device *d, uint64_t ordered_at, uint64_t took_ns);

/* Called when the entity became ready, and when it became idle. */
void forecast_came(Entity *e, uint64_t at);
void forecast_left(Entity *e, uint64_t at);

/* Called when the queue's client has written another hint, PageSlot.expected_ns. */
void forecast_heard(Queue *q, uint64_t at);

/* Called when the entity is new or has another priority: it may have to yield to one that is expected already. */
void forecast_ranked(Entity *e);

/* Sets Entity.yields of all entities of the device, after its policy was dispatched and before words are written, and
 * Device.forecast_at, when to call it again. Windows depend on nothing but time, Costs.hold_ns, and
 * what is noted in Device.forecast_stale: it is called when one of these says so. */
void forecast_turn(Device *d, uint64_t now);

/* Called before the entity is freed. */
void forecast_forget(Entity *e);
