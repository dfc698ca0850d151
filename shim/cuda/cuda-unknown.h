/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Launches and captures that the layer does not know: functions of a newer libcuda whose names begin as those of
 * launches do, or of what begins a capture
 *
 * Nothing is known of their arguments, so they cannot be held. A program that asks for one gets a thunk that counts its
 * calls and goes on to it: xsched_cuda_count() returns the count by the function's name, so that launches past the gate
 * are noticed. From the first call of one that begins a capture on, there is always a capture (cuda-capture.h).
 */

#include <stdbool.h>
#include <stdint.h>

/* Returns a thunk in front of `address`, which libcuda gave for `name`; or the address, when it is neither by its
 * name or there is no thunk left. From any thread. */
void *cuda_unknown_replace(void *address, const char *name);

/* UINT64_MAX: no function of that name was asked for. */
uint64_t cuda_unknown_count(const char *name);
