/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Holds by privilege: the rung of the ladder for processes that cannot be stopped from inside
 *
 * Off unless PrivilegedPreemption= says otherwise. What is held so is a whole process, with all its queues on all its
 * GPUs; therefore it is held only while every queue of the client has the verdict hold, and lets go as soon as one may
 * run. The gate is closed as for everybody.
 *
 * The calls are made by a process for each client (holder.h): the service asks, and goes on. Which rung is taken is the
 * ladder's decision: it sets Queue.privileged, and may ask whether the rung is there. A failure takes the rung away
 * from the client, for ever when the hardware or the driver has refused, for PRIVILEGED_RETRY_NS otherwise, and has the
 * ladder choose anew.
 *
 * At the start, what a former life has left held is undone first; until that has been done nobody is held so.
 */

#include "service/core/client.h"

#define PRIVILEGED_RETRY_NS (10 * NSEC_PER_SEC)

typedef enum PrivilegedState {
        PRIVILEGED_OFF,     /* not used for this client so far */
        PRIVILEGED_RUNNING, /* its holder waits */
        PRIVILEGED_HOLDING, /* asked for */
        PRIVILEGED_HELD,
        PRIVILEGED_RELEASING, /* asked for */
        PRIVILEGED_FAILED,    /* and the holder waits */
        _PRIVILEGED_STATE_MAX,
} PrivilegedState;

const char *privileged_state_to_string(PrivilegedState v);

/* Where it is written down is $RUNTIME_DIRECTORY/holds. Never fails: what cannot be done is said, and makes the rung
 * impossible. */
int privileged_init(Manager *m);
void privileged_done(Manager *m);

/* Whether a hold of this client can be tried now. */
bool privileged_is_possible(const Client *c);

/* False: not measured. */
bool privileged_costs(const Client *c, HalCosts *ret);

PrivilegedState privileged_state(const Client *c);

/* Verdicts or rungs of the client's queues changed: looked at by privileged_flush(), at the end of every turn. */
void privileged_touch(Client *c);
void privileged_flush(Manager *m);

/* The client's lease was renewed. */
void privileged_renew(Client *c, uint64_t until_ns);

void privileged_client_gone(Client *c);
