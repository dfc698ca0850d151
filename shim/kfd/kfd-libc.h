/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Finds the fds of /dev/kfd and the calls on them about queues, between a program and libc
 */

#include "kfd-queue.h"

/* The ioctl() behind this library, and calls of the driver by a context. */
int kfd_next_ioctl(int fd, unsigned long request, void *arg);
int kfd_context_ioctl(int context, unsigned long request, ...);
int kfd_context_fd(unsigned context);

/* Returns false when the layer is inactive in this process. Not under the lock. */
bool kfd_start(void);
