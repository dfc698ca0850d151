/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The driver's objects of this process: clients, devices, channel groups and channels
 *
 * cuda-ioctl.c sees libcuda's calls that make, copy and free objects of the driver. This file records the objects that
 * matter for stopping channels (hal/nvrm.h), and which are stopped; cuda-stop.c decides when. A call of the application
 * is passed on first, and recorded when it has succeeded. But channels that are about to be freed are left out of our
 * own calls from before that call on.
 *
 * All channels of the process on a device are stopped together, except those of copy engines: copies are short beside
 * kernels, the gate never holds them either, and a copy waits by itself for the kernels whose results it takes. Leaving
 * them out makes a stop a fifth shorter (H200: 0.75 instead of 0.96 ms). A channel that is made while the others are
 * stopped is stopped, too.
 *
 * A copy of a channel in the same process is the same channel: calls name it once, by its first name, and by the next
 * when that is freed.
 *
 * Nothing stays stopped: every call that looks at a channel which has to run enables it, and when the driver refuses, a
 * thread tries until it does. A channel is enabled before the way to it goes, see cuda-reach.h. Names may be reused
 * while a call that frees them has not returned, so records have serial numbers.
 *
 * One lock covers records and our calls into the driver. No launch takes it. A child after fork() has no records, and
 * stops nothing.
 */

#include "shim/cuda/cuda-object.h"

/* Takes the lock and blocks signals (common/signal-mask.h). Returns false in the handler of a signal that is not
 * blocked, on a thread that has the lock. */
bool cuda_rm_lock(void);
bool cuda_rm_lock_within(uint64_t ns);
void cuda_rm_unlock(void);
static inline void cuda_rm_unlockp(const bool *locked) {
        if (*locked)
                cuda_rm_unlock();
}

/* --- the application's calls, without the lock --- */

/* Returns whether objects are recorded; else see cuda-version.h. `fd`: the file on which a client was made. */
bool cuda_rm_is_on(int fd);

/* The same as far as it is known by now, without asking the driver. */
bool cuda_rm_looks(void);

/* Returns whether any channel is stopped. From any thread. */
bool cuda_rm_any_stopped(void);

/* Record a call of the application that has succeeded. */
void cuda_rm_alloc(int fd, const NvrmAllocShort *a, uint32_t engine); /* of a group: NVRM_ENGINE_* */
void cuda_rm_dup(const NvrmDup *a);
void cuda_rm_schedule(uint32_t client, uint32_t object); /* a group or channel may run from now on */

/* Called around a call that frees an object; no signal handler may jump out in between. cuda_rm_free_begin() returns
 * the `epoch` for cuda_rm_free_end(); 0: the object is not recorded. */
uint64_t cuda_rm_free_begin(uint32_t client, uint32_t object);
void cuda_rm_free_end(uint32_t client, uint32_t object, uint64_t epoch, bool done);

/* The program has disabled or enabled channels itself: enables all channels that we have disabled, and stops none from
 * now on. Channels that the program disabled stay disabled, because the driver counts. */
void cuda_rm_step_back(void);

/* --- with the lock --- */

/* Returns the GPU of a PCI address; NULL: it has no known channel that we could stop. */
CudaGpu *cuda_rm_gpu(const char *id);
CudaGpu *cuda_rm_gpus(void);

/* Stops or enables all channels of the process on the GPU. Returns 0 or a negative errno; after an error all run, or
 * have to be enabled again. */
int cuda_rm_stop(CudaGpu *g, bool stop);
