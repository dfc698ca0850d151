/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * How long processes have used an NVIDIA GPU, from libnvidia-ml
 */

#include "gpu-usage.h"

/* The same functions for NVML. */
typedef struct Nvml Nvml;
int nvml_open(const PciAddress *a, Nvml **ret);
Nvml *nvml_free(Nvml *n);
int nvml_read(Nvml *n, const pid_t *pids, size_t n_pids, uint64_t *ret_span_us, uint64_t *ret_ran_us);
