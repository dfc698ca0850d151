/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * How long processes have used a GPU, as its driver counts
 *
 * The first of three sources that knows the GPU is used:
 *   nvml    libnvidia-ml, loaded by name at run time: the utilisation of each process, which the driver measures
 *           several times a second and keeps for some seconds. The library blocks, and takes locks that it shares with
 *           other processes.
 *   fdinfo  the counters of amdgpu and other DRM drivers for a process, by engine, in nanoseconds: exact for work
 *           submitted through the kernel, which excludes queues of KFD. The reader needs the right to trace the
 *           process.
 *   kfd     the number of compute units in use by the process at this moment (cu_occupancy): a point sample, to be
 *           taken often.
 *
 * Only xsched-metrics calls this, a process that may hang or crash. Not yet run on hardware: the tests use doubles of
 * the library and of the directories, built from nvml.h and the kernel's documentation.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "hal/gpu-metrics.h"

#define GPU_USAGE_PIDS_MAX  64U
#define GPU_USAGE_SAMPLE_MS 100 /* interval between point samples */

/* After a question xsched-metrics takes this many samples, waits this long for the next question, and exits. */
#define GPU_USAGE_SAMPLES_MAX 30U
#define GPU_USAGE_IDLE_MS     10000

typedef struct GpuUsage GpuUsage;

/* Opens the first source that knows the GPU. `root`: "" except in tests. *ret_source is a text for people, also of a
 * failure. Returns 0, and *ret, which the caller gives back by gpu_usage_free(); -ENODEV: no source knows the GPU. */
int gpu_usage_open(const char *root, const PciAddress *a, GpuUsage **ret, char ret_source[static 96]);
GpuUsage *gpu_usage_free(GpuUsage *u);

/* Takes a point sample of these processes; does nothing when the source counts by itself. */
void gpu_usage_sample(GpuUsage *u, const pid_t *pids, size_t n);

/* Returns how long these processes together had the GPU in the last span, which ended now or recently; both in
 * microseconds, and 0 with the first call. Time in which several of them ran counts once. A negative errno: the source
 * says nothing about them. */
int gpu_usage_read(GpuUsage *u, const pid_t *pids, size_t n, uint64_t *ret_span_us, uint64_t *ret_ran_us);

/* Parses the text of one file of /proc/PID/fdinfo. Returns 1, the id of the DRM client (one client may be open as
 * several files) and its use of that GPU in nanoseconds; 0 when the file belongs to another GPU, or to none. */
int gpu_usage_parse_fdinfo(const char *text, const PciAddress *a, uint64_t *ret_client, uint64_t *ret_ns);
