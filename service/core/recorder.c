/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The recorder
 */

#include "recorder.h"
#include "client.h"
#include "observer.h"
#include "turn.h"
#include "usage.h"

/* Limits of one step: so many entities, and no further one after this time. Edges wait until the step ends. */
#define STEP_OBJECTS 8U
#define STEP_NS      (30 * NSEC_PER_USEC)

#define PRIORITY_RECORDER (PRIORITY_CALLS + 10)

/* Usage since the last frame in whole microseconds; the rest is left for the next one. After an estimate that was too
 * high nothing is told until usage has caught up with it. */
static uint64_t take_us(uint64_t *told_ns, uint64_t ns) {
        uint64_t us = ns_sub(ns, *told_ns) / NSEC_PER_USEC;

        *told_ns += us * NSEC_PER_USEC;
        return us;
}

static void read_entity(Record *record, Entity *e, const PolicyUsage *usage) {
        PolicyUsage *told = &e->recorded.usage;
        const uint64_t us[_RECORD_TIME_MAX] = {
                        [RECORD_RUN] = take_us(&told->run_ns, usage->run_ns),
                        [RECORD_KEPT] = take_us(&told->kept_ns, usage->kept_ns),
                        [RECORD_WAIT] = take_us(&told->wait_ns, usage->wait_ns),
                        [RECORD_DRAIN] = take_us(&told->drain_wait_ns, usage->drain_wait_ns),
                        [RECORD_SERVICE] = take_us(&e->recorded.service_wait_ns, e->service_wait_ns),
        };

        record_add(record, e->device->id, e->group->name, e->group->owner, us);
}

static void read_device(Record *record, Device *d, uint64_t now) {
        PolicyDeviceUsage usage, *told = &d->recorded;

        device_usage(d, now, &usage);
        const uint64_t us[_RECORD_USE_MAX] = {
                        [RECORD_BUSY] = take_us(&told->busy_ns, usage.busy_ns),
                        [RECORD_DEVICE_KEPT] = take_us(&told->kept_ns, usage.kept_ns),
                        [RECORD_IDLE] = take_us(&told->idle_ns, usage.idle_ns),
        };
        record_add_device(record, d->id, d->uid, us);
}

static void read_object(Recorder *r, void *object, uint64_t now) {
        PolicyUsage usage;

        if (r->table == WALK_DEVICES) {
                read_device(r->record, object, now);
                return;
        }
        Entity *e = ((Queue *) object)->entity;
        if (!e || e->recorded.pass == r->pass)
                return;
        e->recorded.pass = r->pass;
        entity_usage(e, now, &usage);
        read_entity(r->record, e, &usage);
}

/* --- reading --- */

static bool is_due(const Recorder *r, uint64_t now) {
        return ns_sub(now, r->read_at) >= RECORDER_INTERVAL_NS;
}

static void begin(Recorder *r) {
        r->pass++;
        r->reading = r->armed = true;
        r->table = WALK_DEVICES;
        walk_begin(&r->walk, r->manager, r->table);
}

/* Events from here on arm the recorder anew. */
static void end(Recorder *r, uint64_t now) {
        walk_end(&r->walk);
        r->reading = r->armed = false;
        r->read_at = now;
        record_end(r->record, now / NSEC_PER_USEC);
        turn_ask_end(r->manager);
}

int recorder_step(Recorder *r) {
        uint64_t now = now_ns(), until = now + STEP_NS;

        if (!r->reading && !is_due(r, now))
                return 0;
        if (!r->reading)
                begin(r);
        for (unsigned i = 0; i < STEP_OBJECTS && (i == 0 || now < until); i++, now = now_ns()) {
                void *object = walk_next(&r->walk);
                if (object) {
                        read_object(r, object, now);
                        continue;
                }
                if (r->table == WALK_QUEUES) {
                        end(r, now);
                        return 0;
                }
                walk_end(&r->walk);
                r->table = WALK_QUEUES;
                walk_begin(&r->walk, r->manager, r->table);
        }
        return 1;
}

static int on_work(sd_event_source *s, void *userdata) {
        Recorder *r = userdata;

        /* A call for the record may have finished the frame already. */
        if (!r->armed || recorder_step(r) == 0)
                return sd_event_source_set_enabled(s, SD_EVENT_OFF);
        return 0;
}

static int on_timer(sd_event_source *s, uint64_t usec, void *userdata) {
        Recorder *r = userdata;

        return sd_event_source_set_enabled(r->work, SD_EVENT_ON);
}

static void recorder_arm(Recorder *r) {
        uint64_t at = r->read_at + RECORDER_INTERVAL_NS;

        r->armed = true;
        if (at <= now_ns()) {
                (void) sd_event_source_set_enabled(r->work, SD_EVENT_ON);
                return;
        }
        (void) sd_event_source_set_time(r->timer, DIV_ROUND_UP(at, NSEC_PER_USEC));
        (void) sd_event_source_set_enabled(r->timer, SD_EVENT_ONESHOT);
}

/* --- what happens --- */

static void on_entity_removed(Entity *e, void *userdata) {
        const Recorder *r = userdata;

        read_entity(r->record, e, &e->usage);
}

static void on_device_removed(Device *d, void *userdata) {
        const Recorder *r = userdata;

        read_device(r->record, d, now_ns());
}

/* Counters may have changed in this turn. */
static void on_turn_ended(Manager *m, void *userdata) {
        Recorder *r = userdata;

        if (!r->armed)
                recorder_arm(r);
}

static const ObserverOps recorder_ops = {
                .entity_removed = on_entity_removed,
                .device_removed = on_device_removed,
                .turn_ended = on_turn_ended,
};

/* --- life --- */

static int add_sources(Recorder *r) {
        sd_event *event = r->manager->event;

        int k = sd_event_add_defer(event, &r->work, on_work, r);
        if (k >= 0)
                k = sd_event_source_set_enabled(r->work, SD_EVENT_OFF);
        if (k >= 0)
                k = sd_event_source_set_priority(r->work, PRIORITY_RECORDER);
        if (k >= 0)
                k = sd_event_add_time(event, &r->timer, CLOCK_MONOTONIC, UINT64_MAX, 1, on_timer, r);
        if (k >= 0)
                k = sd_event_source_set_enabled(r->timer, SD_EVENT_OFF);
        if (k >= 0)
                k = sd_event_source_set_priority(r->timer, PRIORITY_RECORDER);
        if (k >= 0)
                (void) sd_event_source_set_description(r->timer, "record");
        return k;
}

int recorder_new(Manager *m, Recorder **ret) {
        Recorder *r = calloc(1, sizeof(*r));

        if (!r)
                return -ENOMEM;
        *r = (Recorder){.manager = m, .read_at = now_ns()};
        r->record = record_new(r->read_at / NSEC_PER_USEC);
        int k = r->record ? add_sources(r) : -ENOMEM;
        if (k >= 0)
                k = observer_add(m, &recorder_ops, r);
        if (k < 0) {
                (void) recorder_free(r);
                return k;
        }
        turn_ask_end(m);
        *ret = r;
        return 0;
}

Recorder *recorder_free(Recorder *r) {
        if (!r)
                return NULL;
        walk_end(&r->walk);
        sd_event_source_disable_unref(r->timer);
        sd_event_source_disable_unref(r->work);
        record_free(r->record);
        free(r);
        return NULL;
}
