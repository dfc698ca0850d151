/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Privileged holds: a hold of a process that cannot stop its own queues, by a pause of the whole process
 *
 * Off unless PrivilegedPreemption= says otherwise. A privileged hold stops a whole process, with all its queues on all
 * its GPUs; therefore it lasts only while every queue of the client has the verdict hold, and ends as soon as one may
 * run. The gate is closed as in every hold.
 *
 * A child for each client makes the calls (pauser.h), so that the service does not wait. The ladder decides which rung
 * is used: it sets Queue.privileged, and may ask whether the rung is available. After a failure the client has no such
 * rung, for ever when the hardware or the driver has refused, else for PRIVILEGED_RETRY_NS, and the ladder chooses
 * again.
 *
 * At the start, holds that the former service left are undone first; there are no privileged holds until then.
 */

#include "hal/hal.h"
#include "service/core/client.h"

#define PRIVILEGED_RETRY_NS (10 * NSEC_PER_SEC)

typedef enum PrivilegedState {
        PRIVILEGED_OFF,     /* not used for this client so far */
        PRIVILEGED_RUNNING, /* not held, its pauser waits */
        PRIVILEGED_HOLDING, /* asked for */
        PRIVILEGED_HELD,
        PRIVILEGED_RELEASING, /* asked for */
        PRIVILEGED_FAILED,    /* the last request failed, its pauser waits */
        _PRIVILEGED_STATE_MAX,
} PrivilegedState;

const char *privileged_state_to_string(PrivilegedState v);

/* Records are in $RUNTIME_DIRECTORY/holds. Never fails: a problem is logged, and makes the rung unavailable. */
int privileged_init(Manager *m);
void privileged_done(Manager *m);

/* Whether a privileged hold of this client can be tried now. */
bool privileged_is_possible(const Client *c);

/* False: not measured. */
bool privileged_costs(const Client *c, HalCosts *ret);

PrivilegedState privileged_state(const Client *c);

/* Called when verdicts or rungs of the client's queues changed; privileged_flush() applies that at the end of every
 * turn. */
void privileged_touch(Client *c);
void privileged_flush(Manager *m);

/* Called when the client's lease was renewed. */
void privileged_renew(Client *c, uint64_t until_ns);

void privileged_client_gone(Client *c);
