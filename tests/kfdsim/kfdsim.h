/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What a program may say to the simulator that it runs on: weak symbols, NULL when it is not preloaded
 */

#include <stdint.h>

/* Replaces the failures of this process; the grammar is that of KFDSIM_FAIL (failure.c). 0 or a negative errno. */
int kfdsim_fail(const char *text) __attribute__((weak));

/* How often the queues of a GPU have been unmapped and mapped so far: what bystanders pay for. */
uint64_t kfdsim_maps(uint32_t gpu_id) __attribute__((weak));
