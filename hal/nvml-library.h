/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Definitions shared by the users of NVML, the library of NVIDIA's driver
 */

#include <inttypes.h>
#include <stdio.h>

#include "hal/gpu-metrics.h"

#define NVML_SONAME     "libnvidia-ml.so.1"
#define NVML_BUS_ID_MAX 32U

enum { NVML_SUCCESS = 0 };

/* Formats the address as nvmlDeviceGetHandleByPciBusId() requires. */
static inline void nvml_bus_id(const PciAddress *a, char ret[static NVML_BUS_ID_MAX]) {
        (void) snprintf(ret, NVML_BUS_ID_MAX, "%08" PRIx32 ":%02" PRIx32 ":%02" PRIx32 ".%" PRIx32, a->domain,
                        a->bus & 0xff, a->device & 0xff, a->function & 0xf);
}
