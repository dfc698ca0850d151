/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Between libcuda and the kernel: ioctl()
 */

#include "cuda-rm.h"

/* The ioctl() behind ours. */
int cuda_next_ioctl(int fd, unsigned long request, ...);
