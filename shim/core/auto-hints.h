/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * XSched's variables, as far as they are wishes of a process: XSCHED_AUTO_XQUEUE=ON with XSCHED_SCHEDULER=GLB
 *
 * Each of its queues is to have these hints there. Here they are the process's, which comes to the same, and as all
 * hints they only lower.
 */

#include "shim/core/hints.h"

/* When the library is loaded. */
void auto_hints_read(HintSet *ret);

/* With the first queue: says on standard error what was ignored, once. A program that has nothing to do with a GPU is
 * told nothing. */
void auto_hints_complain(void);
