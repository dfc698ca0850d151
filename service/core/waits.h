/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Waits: why something does not run just now
 *
 * What a person asks who looks at a job that does not get on. Nothing decides by it, and nothing is kept for it: it is
 * found out when it is asked for, from what the entities and their policy know at that moment.
 */

#include "entity.h"
#include "queue.h"

typedef enum WaitReason {
        WAIT_SUSPENDED, /* until it is resumed; by whom: what was suspended */
        WAIT_STOPPED,   /* its process is stopped, or frozen */
        WAIT_MAX,       /* Max= of that group is used up, until its next period */
        WAIT_PRIORITY,  /* that one runs, with a higher priority */
        WAIT_SHARE,     /* that one runs, whose turn it is */
        WAIT_GANG,      /* its group waits for another of its devices */
        WAIT_EXPECTED,  /* the device is kept for somebody who is expected back at once */
        _WAIT_REASON_MAX,
} WaitReason;

const char *wait_reason_to_string(WaitReason v);
int wait_reason_from_string(const char *s);

/* Why an entity waits, and since when (ns; 0: not known); NULL: it does not. */
const char *waits_entity(const Entity *e, uint64_t *ret_since_ns);

/* As a(sssttt): device, reason, by whom, since when, until when (CLOCK_MONOTONIC in microseconds, 0: not known), and
 * for how long, up to now. One for each entity that waits, of a group, a client or a queue. */
int waits_append_group(sd_bus_message *reply, Group *g);
int waits_append_client(sd_bus_message *reply, Client *c);
int waits_append_queue(sd_bus_message *reply, Queue *q);
