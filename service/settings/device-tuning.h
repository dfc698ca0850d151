/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What a device's configuration says beside its policy: how much may be in flight, and how awake the service is
 */

#include <stdbool.h>
#include <stdint.h>

#include "accounting.h"
#include "hal/kfd-privileged.h"
#include "policy/preemption.h"

/* Launches in flight of a queue that can be taken off the device, unless a setting says otherwise: a hold does not wait
 * for them. */
#define DEVICE_THRESHOLD_STOPPABLE 16U

typedef struct DeviceTuning {
        /* No threshold is set: PolicyConfig.threshold is for queues that drain, DEVICE_THRESHOLD_STOPPABLE for queues
         * that can be taken off the device. */
        bool threshold_by_level;
        uint32_t budget_us;      /* in-flight time under contention; 0: only the threshold counts */
        uint32_t lead_us;        /* how long before a launch is expected to end the next may follow */
        uint64_t busy_poll_ns;   /* how long the service looks on for events before it sleeps, while it is contended */
        uint64_t cpu_latency_ns; /* how long waking a sleeping CPU may take meanwhile; NSEC_INFINITY: as it does */
        Preemption preemption;   /* how far holds reach on this device */
        KfdPrivilegedMode privileged; /* how the service may hold whole processes */
        Accounting accounting;        /* how time is counted of an entity that is alone on it */
        bool adaptive;                /* what drains sooner than it could be taken off is left to drain */
        bool allow_mes;               /* beyond the gate on GPUs that MES schedules, too */
} DeviceTuning;
