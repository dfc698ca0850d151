/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Queues of the HSA runtime whose packets are the test's own, under the layer and a service that does what the test
 * says
 *
 * In a module as test-shim-hsa.c is, so that the same runtime is used as in a program.
 */

#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#include "aql.h"
#include "kfdsim.h"
#include "tests/lib/bus-cases.h"
#include "tests/lib/fake-scheduler.h"

#define TESTED_SLOTS_MAX 128U

typedef struct Tested {
        hsa_queue_t *queue;
        AqlProof *proof;
        uint64_t n_dispatched;
        uint32_t slot;
        _Atomic unsigned n_errors; /* of the queue, of which the runtime has told, and the last one */
        _Atomic int status;
} Tested;

extern FakeScheduler *tested_scheduler;
extern FakeClient *tested_client;
extern const AqlKernel tested_good;

/* ROCm 6.0 and later waits for resets, and, where the driver knows them, for exceptions of queues. */
bool runtime_is_new(void);

/* Starts the service and makes two queues. */
void tested_start(Tested *t, Tested *other);

/* Makes a queue, and finds its slot by what a dispatch adds to. tested_make_alone(): without a service. */
void tested_make(Tested *t);
void tested_make_alone(Tested *t);
void tested_end(Tested *t);

void tested_dispatch(Tested *t, const AqlKernel *kernel);
bool tested_is_done(const Tested *t);
bool tested_is_idle(const Tested *t);
PageSlot *tested_slot(uint32_t i);

/* Holds the queue or lets it go; tested_verdict() waits until that is done. */
void tested_order(const Tested *t, bool held);
bool tested_is_applied(const Tested *t);
void tested_verdict(const Tested *t, bool held);

/* Counts this process's queues that are in this state. */
unsigned count_queues(bool (*is)(const KfdsimQueue *q));
bool queue_is_stopped(const KfdsimQueue *q);
