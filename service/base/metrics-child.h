/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The child that asks a GPU, xsched-metrics: what asks may block or crash
 */

#include <sys/types.h>

/* Starts it for a device. `mode` may be NULL; `input` -1: none. 0 or a negative errno. */
int metrics_spawn(const char *mode, const char *device, int input, int output, pid_t *ret);
