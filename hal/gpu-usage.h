/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * How long processes have used a GPU, as its driver counts
 *
 * Three sources, the first that knows the GPU:
 *   nvml    libnvidia-ml, looked for at run time by its name: the utilisation of each process, which the driver
 *           measures several times a second and keeps for some seconds. It blocks, and takes locks that it shares with
 *           other processes.
 *   fdinfo  what amdgpu, and other DRM drivers, have counted for a process, by engine, in nanoseconds: exact, of what
 *           is submitted through the kernel. (Queues of KFD are not.) Who asks needs the right to trace the process.
 *   kfd     how many compute units the process has in use at this moment (cu_occupancy): a point sample, to be taken
 *           often.
 *
 * Nothing but xsched-metrics calls this, a process that may hang or crash. Seen on no hardware so far: it is tested
 * with doubles of the library and of the directories, by what nvml.h and the kernel's documentation say.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "hal/gpu-metrics.h"

#define GPU_USAGE_PIDS_MAX  64U
#define GPU_USAGE_SAMPLE_MS 100 /* how often a point sample wants to be taken */

/* So many points are taken after a question, and then there is nobody who asks. */
#define GPU_USAGE_SAMPLES_MAX 30U
#define GPU_USAGE_IDLE_MS     10000

typedef struct GpuUsage GpuUsage;

/* `root`: "" but for tests. *ret_source is fit for people, also of a failure: -ENODEV, when none knows the GPU. */
int gpu_usage_open(const char *root, const PciAddress *a, GpuUsage **ret, char ret_source[static 96]);
GpuUsage *gpu_usage_free(GpuUsage *u);

/* A point sample of these processes, where the source is one of points. */
void gpu_usage_sample(GpuUsage *u, const pid_t *pids, size_t n);

/* How long these processes together had the GPU in the last span, which ended now or not long ago; both in
 * microseconds, and 0 with the first call. What runs beside each other is not counted twice. A negative errno where
 * nothing can be said of them. */
int gpu_usage_read(GpuUsage *u, const pid_t *pids, size_t n, uint64_t *ret_span_us, uint64_t *ret_ran_us);

/* The text of one file of /proc/PID/fdinfo: 1 and what the client (a file may be open several times) has used of that
 * GPU; 0 when it is of another one, or of none. */
int gpu_usage_parse_fdinfo(const char *text, const PciAddress *a, uint64_t *ret_client, uint64_t *ret_ns);

/* nvml-usage.c. As above, of one source. */
typedef struct Nvml Nvml;
int nvml_open(const PciAddress *a, Nvml **ret);
Nvml *nvml_free(Nvml *n);
int nvml_read(Nvml *n, const pid_t *pids, size_t n_pids, uint64_t *ret_span_us, uint64_t *ret_ran_us);
