/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Backlogs
 */

#include <time.h>
#include <utlist.h>

#include "cgroup/backlog.h"
#include "common/bucket.h"
#include "common/time-util.h"

/* 1/32 of a CPU, in bursts of at most 50 ms. */
#define BACKLOG_COST    UINT64_C(32)
#define BACKLOG_ROOM_NS (BACKLOG_COST * 50 * NSEC_PER_MSEC)

/* An item that was looked at this recently counts as one that changes all the time. */
#define BACKLOG_OFTEN_NS (100 * NSEC_PER_MSEC)

/* Behind the bus and its calls. */
#define BACKLOG_PRIORITY (SD_EVENT_PRIORITY_NORMAL + 20)

struct Backlog {
        sd_event_source *turn, *timer;
        backlog_look_t look;
        void *userdata;
        BacklogItem *items[2]; /* lists, by `often` */
        Bucket bucket;
};

uint64_t backlog_begin(void) {
        struct timespec t;

        (void) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return (uint64_t) t.tv_sec * NSEC_PER_SEC + (uint64_t) t.tv_nsec;
}

void backlog_end(Backlog *b, uint64_t began) {
        bucket_take(&b->bucket, now_ns(), (backlog_begin() - began) * BACKLOG_COST);
}

static void wake(Backlog *b) {
        uint64_t now = now_ns(), at = bucket_credit_at(&b->bucket, now, BACKLOG_ROOM_NS);

        (void) sd_event_source_set_enabled(b->turn, at <= now ? SD_EVENT_ON : SD_EVENT_OFF);
        if (at <= now)
                return;
        (void) sd_event_source_set_time(b->timer, DIV_ROUND_UP(at, NSEC_PER_USEC));
        (void) sd_event_source_set_enabled(b->timer, SD_EVENT_ONESHOT);
}

static int on_turn(sd_event_source *s, void *userdata) {
        Backlog *b = userdata;
        BacklogItem *item = b->items[0] ?: b->items[1];

        if (!item)
                return sd_event_source_set_enabled(s, SD_EVENT_OFF);
        uint64_t began = backlog_begin();
        backlog_remove(b, item);
        item->looked_at = now_ns();
        b->look(item, b->userdata);
        backlog_end(b, began);
        wake(b);
        return 0;
}

static int on_timer(sd_event_source *s, uint64_t usec, void *userdata) {
        wake(userdata);
        return 0;
}

void backlog_add(Backlog *b, BacklogItem *item) {
        if (item->listed)
                return;
        item->listed = true;
        item->often = item->looked_at != 0 && now_ns() - item->looked_at < BACKLOG_OFTEN_NS;
        DL_APPEND(b->items[item->often], item);
        wake(b);
}

void backlog_remove(Backlog *b, BacklogItem *item) {
        if (!item->listed)
                return;
        item->listed = false;
        DL_DELETE(b->items[item->often], item);
}

/* --- life --- */

Backlog *backlog_free(Backlog *b) {
        if (!b)
                return NULL;
        sd_event_source_disable_unref(b->turn);
        sd_event_source_disable_unref(b->timer);
        free(b);
        return NULL;
}
DEFINE_TRIVIAL_CLEANUP_FUNC(Backlog *, backlog_free);

int backlog_new(sd_event *event, const char *description, backlog_look_t look, void *userdata, Backlog **ret) {
        _cleanup_(backlog_freep)
        Backlog *b = calloc(1, sizeof(*b));

        if (!b)
                return -ENOMEM;
        *b = (Backlog){.look = look, .userdata = userdata};
        int r = sd_event_add_defer(event, &b->turn, on_turn, b);
        if (r >= 0)
                r = sd_event_source_set_enabled(b->turn, SD_EVENT_OFF);
        if (r >= 0)
                r = sd_event_source_set_priority(b->turn, BACKLOG_PRIORITY);
        if (r >= 0)
                r = sd_event_add_time(event, &b->timer, CLOCK_MONOTONIC, UINT64_MAX, 1, on_timer, b);
        if (r >= 0)
                r = sd_event_source_set_enabled(b->timer, SD_EVENT_OFF);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(b->turn, description);
        (void) sd_event_source_set_description(b->timer, description);
        *ret = TAKE_PTR(b);
        return 0;
}
