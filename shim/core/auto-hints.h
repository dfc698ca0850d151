/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * XSched's variables that set hints: XSCHED_AUTO_XQUEUE=ON with XSCHED_SCHEDULER=GLB
 *
 * XSched gives these hints to each queue of the process. Here they are hints of the process, which has the same effect;
 * like all hints they can only lower.
 */

#include "shim/core/hints.h"

/* Reads the variables. Called when the library is loaded. */
void auto_hints_read(HintSet *ret);
