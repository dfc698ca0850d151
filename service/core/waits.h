/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Waits: why an entity does not run just now
 *
 * For display only, to explain a job that makes no progress. No decision uses it, and no state is kept for it: a call
 * reads the present state of entities and policies.
 */

#include <limits.h>

#include "entity.h"
#include "queue.h"

typedef enum WaitReason {
        WAIT_SUSPENDED, /* until it is resumed; `by`: the suspended object */
        WAIT_STOPPED,   /* its process is stopped or frozen */
        WAIT_MAX,       /* Max= of group `by` is used up, until its next period */
        WAIT_PRIORITY,  /* `by` runs, with a higher priority */
        WAIT_SHARE,     /* `by` runs, because it is its turn */
        WAIT_GANG,      /* its gang waits for device `by` */
        WAIT_EXPECTED,  /* the device is kept for an entity that is expected back at once */
        _WAIT_REASON_MAX,
} WaitReason;

const char *wait_reason_to_string(WaitReason v);

/* Why an entity waits, and since when (CLOCK_MONOTONIC ns; 0: not known). NULL: it does not wait. */
const char *waits_entity(const Entity *e, uint64_t *ret_since_ns);

#define WAIT_BY_SIZE (PATH_MAX + 16U)

typedef struct Wait {
        WaitReason reason;
        char by[WAIT_BY_SIZE];       /* name of what it waits for */
        uint64_t since_ns, until_ns; /* 0: not known */
} Wait;

/* Called for each wait. A negative errno ends the walk and is returned. `device`: its id; "": of no device. */
typedef int (*wait_each_t)(const char *device, const Wait *w, void *userdata);

/* Call `each` for each entity of a group, client or queue that waits. */
int waits_of_group(Group *g, wait_each_t each, void *userdata);
int waits_of_client(Client *c, wait_each_t each, void *userdata);
int waits_of_queue(Queue *q, wait_each_t each, void *userdata);
