/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Device tuning: the configuration of a device beside its policy: how many launches may be in flight, how far holds
 * reach, how time is counted, and how fast the service has to wake
 */

#include <stdbool.h>
#include <stdint.h>

#include "accounting.h"
#include "hal/privileged-mode.h"
#include "policy/preemption.h"

/* Launches in flight of a queue that can be taken off the device, unless a setting says otherwise: a hold does not wait
 * for them. */
#define DEVICE_THRESHOLD_STOPPABLE 16U

typedef struct DeviceTuning {
        /* No threshold is set: PolicyConfig.threshold is for queues that drain, DEVICE_THRESHOLD_STOPPABLE for queues
         * that can be taken off the device. */
        bool threshold_by_level;
        uint32_t budget_us;        /* in-flight time under contention; 0: only the threshold counts */
        uint32_t lead_us;          /* the next launch may follow so long before the one in flight is expected to end */
        uint64_t busy_poll_ns;     /* under contention, the service polls for so long before it sleeps */
        uint64_t cpu_latency_ns;   /* under contention, waking a CPU may take so long; NSEC_INFINITY: no limit */
        Preemption preemption;     /* how far holds reach on this device */
        PrivilegedMode privileged; /* how the service may hold whole processes */
        Accounting accounting;     /* how time is counted of an entity that is alone on it */
        bool adaptive;             /* a queue that drains sooner than it could be taken off is left to drain */
        bool allow_mes;            /* holds reach beyond the gate on GPUs that MES schedules, too */
} DeviceTuning;
