/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The delay between the submission of a turn's first launch and its start on the device
 *
 * A GPU that switches from one process to another takes time for it (0.13 ms on an H200). The first launch of a turn
 * looks longer by that than others of its kind, and a part of each turn would be accounted as the program's time
 * although the device did nothing for it. Launches of a kind differ, so one first launch says little about the delay.
 * The median of the differences over many turns is used, up to OPENCL_DELAY_MAX.
 *
 * Only for devices whose runtime does not call back at once (opencl-guess.h): a CPU device has no such switch.
 */

#include "common/time-util.h"
#include "shim/opencl/opencl-queue.h"

#define OPENCL_DELAY_MAX (500 * NSEC_PER_USEC)

/* The queue is held: its next launch begins a turn. From any thread. */
void opencl_delay_note_held(OpenclQueue *q);

/* Under the queue's lock. A launch is submitted. `alone`: nothing of the queue is in flight. */
void opencl_delay_submitted(OpenclQueue *q, bool alone);

/* Under the queue's lock. `n` launches of one kind (`kind` 0: of several) were found complete at `now`. `prompt`: soon
 * after they completed. Returns when the device began them, CLOCK_MONOTONIC; 0: at their submission, as far as is
 * known. */
uint64_t opencl_delay_found(OpenclQueue *q, uint64_t kind, uint32_t n, uint64_t now, bool prompt);

void opencl_delay_reset(OpenclQueue *q);
