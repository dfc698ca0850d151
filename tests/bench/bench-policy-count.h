/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Included before everything else into the policy's sources, as bench-policy is built: makes the tree count its steps.
 */

#include <stdint.h>

extern uint64_t bench_avl_steps;

#define AVL_STEP() (bench_avl_steps++)
