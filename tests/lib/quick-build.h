/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Included before everything else: builds of the service and its programs that wait less
 *
 * Tests that have to see a limit or an interval pass use these builds. Only the times differ; and xsched-metrics has
 * its sysfs below $METRICS_ROOT. A process that has to answer still has more than a second, because the machine may be
 * busy, or a sanitizer in use.
 */

#ifdef QUICK_SERVICE
#        include "service/base/door.h"
#        include "service/bus/device-metrics.h"
#        include "service/bus/guests.h"
#        include "service/core/account-driver.h"
#        include "service/core/account.h"
#        include "service/core/recorder.h"

#        undef ACCOUNT_DRIVER_NS
#        define ACCOUNT_DRIVER_NS (250 * NSEC_PER_MSEC)
#        undef ACCOUNT_DRIVER_ANSWER_NS
#        define ACCOUNT_DRIVER_ANSWER_NS (2 * NSEC_PER_SEC)
#        undef DOOR_BANNED_NS
#        define DOOR_BANNED_NS (UINT64_C(2) * NSEC_PER_SEC)
#        undef GUEST_WAIT_NS
#        define GUEST_WAIT_NS (1500 * NSEC_PER_MSEC)
#        undef METRICS_TIMEOUT_NS
#        define METRICS_TIMEOUT_NS (1500 * NSEC_PER_MSEC)
#        undef RECORDER_INTERVAL_NS
#        define RECORDER_INTERVAL_NS (100 * NSEC_PER_MSEC)
#endif

#ifdef QUICK_METRICS
#        include "hal/gpu-usage.h"

#        undef GPU_USAGE_SAMPLES_MAX
#        define GPU_USAGE_SAMPLES_MAX 8U
#        undef GPU_USAGE_IDLE_MS
#        define GPU_USAGE_IDLE_MS 4500
#        define METRICS_ROOT      strempty(getenv("METRICS_ROOT"))
#endif

#ifdef QUICK_EXPORTER
#        include "tools/exporter/http.h"

#        undef COLLECT_FRESH_NS
#        define COLLECT_FRESH_NS (100 * NSEC_PER_MSEC)
#        undef COLLECT_ANSWER_NS
#        define COLLECT_ANSWER_NS (1500 * NSEC_PER_MSEC)
#        undef COLLECT_MEASURE_NS
#        define COLLECT_MEASURE_NS (1500 * NSEC_PER_MSEC)
#        undef HTTP_LIFE_NS
#        define HTTP_LIFE_NS (4 * NSEC_PER_SEC)
#        undef HTTP_ASKING_NS
#        define HTTP_ASKING_NS (100 * NSEC_PER_MSEC)
#        undef HTTP_READING_NS
#        define HTTP_READING_NS (300 * NSEC_PER_MSEC)
#endif
