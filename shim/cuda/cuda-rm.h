/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What this process has of the driver's: clients, devices, channel groups and channels
 *
 * cuda-ioctl.c sees libcuda's calls into the driver that make, copy and free objects; here is a record of those that
 * matter for stopping channels (hal/nvrm.h), and what is stopped; cuda-stop.c says when. A call of the application is
 * passed on first, and looked at when it has succeeded; but channels that are about to be freed are left out of our own
 * calls from before on.
 *
 * All channels of the process on a device are stopped together, but for those of copy engines: what they copy is small
 * beside kernels, it is never held by the gate either, and it waits by itself for the kernels whose results it takes.
 * To leave them out makes a stop a fifth shorter (H200: 0.75 and 0.96 ms). A channel that is made while the others are
 * stopped is stopped, too.
 *
 * A copy of a channel in the same process is the same channel: it is named once, by its first name, and by the next
 * when that is freed.
 *
 * That nothing stays stopped: what is to run is let go by every call that looks at it, and when the driver refuses, a
 * thread tries until it does. A channel is let go before the way to it goes, see cuda-reach.h. Names may be used again
 * while a call that frees them has not come back: records have serial numbers.
 *
 * One lock covers records and our calls into the driver. No launch takes it. A child after fork() has no records, and
 * stops nothing.
 */

#include "shim/cuda/cuda-object.h"

/* Signals wait meanwhile: common/signal-mask.h. False in a handler of one that does not, on a thread that has the
 * lock. */
bool cuda_rm_lock(void);
bool cuda_rm_lock_within(uint64_t ns);
void cuda_rm_unlock(void);
static inline void cuda_rm_unlockp(const bool *locked) {
        if (*locked)
                cuda_rm_unlock();
}

/* --- the application's calls, without the lock --- */

/* False: nothing is recorded, see cuda_version_why(). On the file on which a client was made. */
bool cuda_rm_is_on(int fd);

/* The same as far as is known by now, and asks nobody. */
bool cuda_rm_looks(void);

/* Some channels are stopped. From any thread, and without the lock. */
bool cuda_rm_any_stopped(void);

/* After each has succeeded. */
void cuda_rm_alloc(int fd, const NvrmAllocShort *a, uint32_t engine); /* of a group: NVRM_ENGINE_* */
void cuda_rm_dup(const NvrmDup *a);
void cuda_rm_schedule(uint32_t client, uint32_t object); /* a group or channel may run from now on */

/* Around each, and no handler may jump out in between. `begin` returns what `end` wants; 0: it is none of ours. */
uint64_t cuda_rm_free_begin(uint32_t client, uint32_t object);
void cuda_rm_free_end(uint32_t client, uint32_t object, uint64_t epoch, bool done);

/* The program has disabled or enabled channels itself: all of ours run, and are stopped no more. What it has disabled
 * stays so: only what we have disabled is enabled, and the driver counts. */
void cuda_rm_step_back(void);

/* --- with the lock --- */

/* By its PCI address; NULL: we know no channel of it that we could stop. */
CudaGpu *cuda_rm_gpu(const char *id);
CudaGpu *cuda_rm_gpus(void);

/* All channels of the process on it. Returns 0 or a negative errno, and then all run, or are to be let go again. */
int cuda_rm_stop(CudaGpu *g, bool stop);

/* For tests and tools: one line for each object. Returns how long the text is. */
size_t cuda_rm_describe(char *ret, size_t size);

/* cuda-ioctl.c: behind us. */
int cuda_next_ioctl(int fd, unsigned long request, ...);

/* cuda-stop.c: the device can be stopped no more; in a child after fork(). Both with the lock. */
void cuda_stop_lower(const CudaGpu *g);
void cuda_stop_forget(void);
