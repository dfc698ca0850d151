/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Metrics child: the process xsched-metrics, which asks a GPU's library in place of the service, because the library
 * may block or crash
 */

#include <sys/types.h>

/* Starts the child for a device. `mode`: its option, may be NULL. `input`: its standard input; -1: none. Returns 0 or a
 * negative errno. */
int metrics_spawn(const char *mode, const char *device, int input, int output, pid_t *ret);
