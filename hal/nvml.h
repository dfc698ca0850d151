/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Measurements of a GPU from NVML, the library of NVIDIA's driver
 */

#include "gpu-metrics.h"

/* Reads from NVML, with the same errors. */
int gpu_metrics_read_nvml(const PciAddress *a, GpuMetrics *ret, char ret_source[static 96]);
