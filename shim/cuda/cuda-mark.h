/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Marks: events behind launches; and samples, marks that measure the time of one launch
 *
 * All functions need the lock of the queue, unless they say otherwise.
 */

#include "shim/cuda/cuda-queue.h"

/* While the device keeps up with the program, the driver is asked for the last mark but one when there are so many. */
#define CUDA_MARKS_BOUND 3U

/* Returns the i-th mark; 0 is the oldest. */
CudaMark *cuda_mark_at(CudaQueue *q, uint32_t i);

/* Records a mark behind the newest launch of the queue. Its event also ends the drains that were asked for before. */
bool cuda_mark_record(CudaQueue *q, CudaStream stream);

/* Whether the newest launch needs a mark. `limit`: cuda_bound_limit(). */
bool cuda_mark_is_due(CudaQueue *q, uint32_t limit);

/* Returns how many launches of at most `expected` nanoseconds may follow the newest one on a ride: they are within the
 * bound, and the last of them records a mark, or the next launch is a sample. */
uint32_t cuda_mark_room(const CudaQueue *q, uint32_t limit, uint64_t expected);

/* Gives back the mark's event for reuse. */
void cuda_mark_release(CudaQueue *q, const CudaMark *m);

/* Returns the number of drains without a mark, and forgets them: the mark that the caller records ends them. */
uint32_t cuda_drains_take(CudaQueue *q);

/* `n` launches are no samples. Returns false when one of them should have been. Needs no lock. */
bool cuda_sample_skip(CudaQueue *q, uint32_t n);

/* Begins a sample: records the first of a pair of events around the next launch. Takes the lock itself, if it is free.
 * Returns the index of the pair; CUDA_TIMED: no sample. */
uint32_t cuda_sample_begin(CudaQueue *q, CudaStream stream, uint64_t kind);

/* Ends a sample after the launch, with its mark. Returns false when there is neither mark nor sample. */
bool cuda_sample_end(CudaQueue *q, CudaStream stream, uint64_t kind, uint32_t timed);

/* Returns and learns the time that the launch took; 0: unknown. */
uint64_t cuda_sample_take(CudaQueue *q, const CudaMark *m);

/* Frees the events that nobody waits for. */
void cuda_mark_free_idle(CudaQueue *q);

/* Frees all events of a queue whose stream is destroyed and whose context is not, but for a green one: the end of any
 * other context frees them. */
void cuda_mark_free_all(CudaQueue *q);
