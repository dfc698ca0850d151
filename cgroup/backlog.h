/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Backlogs: what is to be looked at, since the kernel has told that it changed
 *
 * Who may write somewhere in the hierarchy can do it in a loop, and each write is an event of inotify. An event only
 * puts what it is about into a backlog, where each thing is once, however often it changes. They are looked at one by
 * one, behind verdicts and calls, for a share of one CPU at most; who has not been looked at for a while goes before
 * those who always have news.
 */

#include <systemd/sd-event.h>

#include "common/macro.h"

typedef struct Backlog Backlog;
typedef struct BacklogItem BacklogItem;

/* Part of what is looked at. All zero to begin with. */
struct BacklogItem {
        BacklogItem *prev, *next;
        uint64_t looked_at; /* CLOCK_MONOTONIC */
        bool listed, often;
};

/* What became news before this call is seen by it; the item may be freed in it. */
typedef void (*backlog_look_t)(BacklogItem *item, void *userdata);

int backlog_new(sd_event *event, const char *description, backlog_look_t look, void *userdata,
                Backlog **ret);
Backlog *backlog_free(Backlog *b);

void backlog_add(Backlog *b, BacklogItem *item);

/* Before the item is freed. Does nothing when it is not in the backlog. */
void backlog_remove(Backlog *b, BacklogItem *item);

/* Work for the same purpose that is done elsewhere, in CPU time of this thread: from backlog_begin() to
 * backlog_end(). */
uint64_t backlog_begin(void);
void backlog_end(Backlog *b, uint64_t began);
