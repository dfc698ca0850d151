/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Backlogs: items to look at again, because the kernel has reported a change
 *
 * A user with write access somewhere in the hierarchy can write in a loop, and each write is an event of inotify. So an
 * event only adds its item to a backlog, which holds each item once, however often it changes. The items are looked at
 * one by one, after verdicts and calls, for a limited share of one CPU. Items that were not looked at for a while come
 * before those that change all the time.
 */

#include <systemd/sd-event.h>

#include "common/macro.h"

typedef struct Backlog Backlog;
typedef struct BacklogItem BacklogItem;

/* Embedded in the object that is looked at. All zero at first. */
struct BacklogItem {
        BacklogItem *prev, *next;
        uint64_t looked_at; /* CLOCK_MONOTONIC */
        bool listed, often;
};

/* Looks at an item. The call sees all changes made before it; it may free the item. */
typedef void (*backlog_look_t)(BacklogItem *item, void *userdata);

int backlog_new(sd_event *event, const char *description, backlog_look_t look, void *userdata, Backlog **ret);
Backlog *backlog_free(Backlog *b);

void backlog_add(Backlog *b, BacklogItem *item);

/* Call it before freeing an item. Does nothing when the item is not in the backlog. */
void backlog_remove(Backlog *b, BacklogItem *item);

/* Charge work for the same purpose that is done elsewhere to the backlog's share: the CPU time of this thread from
 * backlog_begin() to backlog_end(). */
uint64_t backlog_begin(void);
void backlog_end(Backlog *b, uint64_t began);
