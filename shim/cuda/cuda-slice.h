/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Time slices of channel groups (level 2, a weak rung): how long the GPU runs a group while another one has work, too
 *
 * The driver gives all groups the same slice, of some milliseconds. A program whose groups have a short one is soon off
 * the GPU when another program launches, without a verdict; while no other program has work it costs nothing. But each
 * slice costs a change of context, so that several programs with short slices at a time get little done: that is why
 * this is off unless the program's environment asks for it, and no hold.
 *
 * XSCHED_CUDA_SLICE=USEC; XSCHED_CUDA_INTERLEAVE=0, 1 or 2: low, medium or high, how often the group is in the list
 * that the GPU goes through. What the driver refuses is left as it is.
 */

#include "shim/cuda/cuda-object.h"

/* Called when the driver was told to run the group. Under cuda_rm_lock(). */
void cuda_slice_group(CudaObject *group);
