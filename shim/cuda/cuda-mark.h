/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Marks: events behind launches; and samples, whose marks tell how long one launch took
 *
 * All under the lock of the queue, but where it says otherwise.
 */

#include "shim/cuda/cuda-queue.h"

/* From the oldest, 0, on. */
CudaMark *cuda_mark_at(CudaQueue *q, uint32_t i);

/* Right behind the newest launch of the queue. Whatever drains were asked for before are ended by it. */
bool cuda_mark_record(CudaQueue *q, CudaStream stream);

/* Its event may be used again. */
void cuda_mark_release(CudaQueue *q, const CudaMark *m);

/* How many drains have no mark yet. */
uint32_t cuda_drains_take(CudaQueue *q);

/* Takes the lock itself, if nobody has it. The pair of events around the launch that is about to be made, the first of
 * which is recorded; CUDA_TIMED: it is no sample. */
uint32_t cuda_sample_begin(CudaQueue *q, CudaStream stream, uint64_t kind);

/* After the launch: its mark. False: there is none, nor a sample. */
bool cuda_sample_end(CudaQueue *q, CudaStream stream, uint64_t kind, uint32_t timed);

/* What it took, which is learned; 0: not known. */
uint64_t cuda_sample_take(CudaQueue *q, const CudaMark *m);

/* When its stream has gone, and its context has not: with that they would have gone by themselves. */
void cuda_mark_free_all(CudaQueue *q);
