/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>

/*
 * Loads libxsched as late as possible
 *
 * A library in LD_PRELOAD is mapped into each program that a unit starts, and nearly none of them uses a GPU. So the
 * layers are linked to nothing but libc: neither to libxsched nor to libgcc's unwinder. The layers call libxsched
 * through pointers, which late_load() fills in: before the first queue, and on a thread that has no lock of the layer,
 * because it waits for the dynamic linker's. When libxsched is not found there are no queues, and the application runs
 * unscheduled. The process has one libxsched: late_load() finds the application's own when it is linked to it. Only if
 * that, or the first in the search path, is an older one that lacks some of these calls, the one beside the layer is
 * loaded.
 *
 * The environment is read when the layer is loaded, and libxsched takes it from there (common/client-environment.h).
 */

/* Returns whether libxsched may be called; false where libc has no threads or no dlopen() in this process, as before
 * glibc 2.34 in a program that is not linked to them. */
bool late_load(void);
