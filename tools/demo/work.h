/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Work: a device, opened by this process, and checked computations on it
 *
 * A task is n kernels on one in-order queue and a clFinish(). The kernels carry the state of all items from task to
 * task (recurrence.h), count their own runs and fold their launch number into an order word, so that work_check() sees
 * a kernel that was lost, ran twice, ran out of order, computed something else, or was still running.
 *
 * Where the device is the CPU, the device is one CPU: its worker thread is pinned there, and all other threads are kept
 * off it. Tenants then share that CPU as they would share a GPU, and host threads and the service do not compete with
 * it.
 *
 * Thread safety: none.
 */

#include "tools/demo/demo.h"
#include "tools/demo/recurrence.h"

typedef struct Work Work;

/* Prints all devices: index, name, platform. Returns the number of devices or a negative errno (and says why). */
int work_list_devices(void);

/* `device`: an index or a part of a name; NULL or "": the first GPU, else the first device. On failure says why, on the
 * standard error. */
int work_open(const char *device, uint32_t seed, Work **ret);
Work *work_close(Work *w);
DEFINE_TRIVIAL_CLEANUP_FUNC(Work *, work_close);

const char *work_device_name(const Work *w);
const char *work_driver_version(const Work *w);
bool work_is_gpu(const Work *w);
int work_cpu(const Work *w); /* the CPU that is the device, or -1 */

/* Enqueues a task of n kernels of this many rounds and waits for it. Returns 0 or -EIO, with *ret_error pointing to a
 * static text. */
int work_run(Work *w, uint32_t n_kernels, uint32_t rounds, const char **ret_error);

/* Reads the results of all tasks so far back, and compares. Returns as work_run(). */
int work_check(Work *w, const char **ret_error);

#define WORK_KERNELS_MAX 4096U
