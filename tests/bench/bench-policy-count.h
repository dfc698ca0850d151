/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Included before everything else into the policy's sources, as bench-policy is built: makes the heap count its steps.
 */

#include <stdint.h>

extern uint64_t bench_heap_steps;

#define HEAP_STEP() (bench_heap_steps++)
