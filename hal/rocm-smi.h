/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Measurements of a GPU from rocm_smi_lib
 */

#include "gpu-metrics.h"

/* Reads from rocm_smi_lib. *ret_source is a text for people: the source, or the reason of the failure. Returns 0;
 * -EOPNOTSUPP: not built in; -ENOENT: the library is not installed; -ELIBBAD: it lacks a symbol; -EIO: it found no GPU
 * or failed; -ENODEV: it does not know this GPU. */
int gpu_metrics_read_rocm_smi(const PciAddress *a, GpuMetrics *ret, char ret_source[static 96]);
