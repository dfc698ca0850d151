/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The environment variables of XSched (Shen et al., OSDI 2025): XSCHED_SCHEDULER, XSCHED_POLICY, XSCHED_AUTO_XQUEUE*
 *
 * Names and ranges are XSched's. Values out of range are ignored, and named.
 */

#include <stdbool.h>
#include <stdint.h>

#include "common/environment-source.h"

/* The numbers are those of XSchedulerType and XPolicyType in XSched's interface. */
#define AUTO_XQUEUE_APP 1
#define AUTO_XQUEUE_LCL 2
#define AUTO_XQUEUE_GLB 3

typedef enum AutoXQueueNumber {
        AUTO_XQUEUE_LEVEL,
        AUTO_XQUEUE_THRESHOLD,
        AUTO_XQUEUE_BATCH_SIZE,
        AUTO_XQUEUE_PRIORITY,
        AUTO_XQUEUE_UTILIZATION,
        AUTO_XQUEUE_TIMESLICE,
        AUTO_XQUEUE_DEADLINE,
        AUTO_XQUEUE_KDEADLINE,
        AUTO_XQUEUE_LAXITY,
        _AUTO_XQUEUE_NUMBER_MAX,
} AutoXQueueNumber;

typedef struct AutoXQueue {
        bool on;       /* XSCHED_AUTO_XQUEUE=ON: each queue is an XQueue */
        int scheduler; /* default: AUTO_XQUEUE_APP; with a policy AUTO_XQUEUE_LCL */
        int policy;    /* 0: none */
        bool is_set[_AUTO_XQUEUE_NUMBER_MAX];
        int64_t values[_AUTO_XQUEUE_NUMBER_MAX];
} AutoXQueue;

/* Reads the variables, and complains of each ignored value. Preserves errno. */
void auto_xqueue_read(const EnvironmentSource *s, AutoXQueue *ret);
