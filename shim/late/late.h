/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>

/*
 * libxsched, as late as can be
 *
 * What stands in LD_PRELOAD is mapped into each program that a unit starts, and nearly none of them has anything to do
 * with a GPU. So it is linked to nothing but libc: neither to libxsched nor to libgcc's unwinder. The calls of
 * libxsched that the layers make lead through pointers, which late_load() fills in: before the first queue, and on a
 * thread that has no lock of the layer, because it waits for the dynamic linker's. Without it, or when it is not found,
 * there are no queues, and the application runs unscheduled. It is this process's one libxsched that is found, the
 * application's own when it is linked to it.
 *
 * The environment is read when the layer is loaded, and libxsched takes it from there (common/client-environment.h).
 */

/* Returns whether libxsched may be called: false where libc has no threads or no dlopen() in this process, as before
 * glibc 2.34 in a program that is not linked to them. */
bool late_load(void);
