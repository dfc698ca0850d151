/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * By what the driver is reached: the file and the subdevice that the calls about a device's channels go to
 *
 * They are the application's, which may free a subdevice, close the file, have it elsewhere under another number, and
 * use its number for something else. So before each call the number is asked for its file. When the way is no more,
 * others are looked for: a subdevice of the same device, and the same file under another number of this process. When
 * there is none, the file is closed, and its channels have gone with it.
 *
 * Thread safety: everything under cuda_rm_lock().
 */

#include "shim/cuda/cuda-object.h"

/* Of a client: what file it was made on. */
void cuda_reach_note_file(CudaObject *client, int fd);

/* By what the channels of `holder` are stopped, and what GPU that is. Nothing below an object that is leaving is used.
 * Returns whether it can be reached. */
bool cuda_reach_find(CudaObject *holder);

/* A call for it has said that there is no way. Returns whether there is another now. What is seen to have gone is given
 * to `gone`, which removes it. */
bool cuda_reach_repair(CudaObject *holder, void (*gone)(CudaObject *top));

CudaGpu *cuda_reach_gpus(void);
void cuda_reach_forget(void);
