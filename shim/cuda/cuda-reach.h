/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The way to the driver: the file and the subdevice that calls about a device's channels go to
 *
 * Both belong to the application. It may free the subdevice, close the file, have it under another number, and use its
 * number for another file. So each call first checks which file the number refers to. When the way is gone, others are
 * looked for: a subdevice of the same device, and the same file under another number of this process. When there is
 * none, the file is closed, and its channels have gone with it.
 *
 * Thread safety: everything under cuda_rm_lock().
 */

#include "shim/cuda/cuda-object.h"

/* Notes the file that a client was made on. */
void cuda_reach_note_file(CudaObject *client, int fd);

/* Finds the way by which the channels of `holder` are stopped, and their GPU. Uses no object that is leaving. Returns
 * whether there is a way. */
bool cuda_reach_find(CudaObject *holder);

/* A call for `holder` has failed because the way is gone. Returns whether there is another one now. Calls gone() for
 * each object that was found to be gone, which removes it. */
bool cuda_reach_repair(CudaObject *holder, void (*gone)(CudaObject *top));

CudaGpu *cuda_reach_gpus(void);
void cuda_reach_forget(void);
