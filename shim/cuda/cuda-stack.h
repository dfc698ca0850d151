/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Whether the frames of this thread's functions can be compared, to find out which of them a jump has left
 */

#include <stdbool.h>

/* Returns whether this is an alternative stack of a signal handler: frames cannot be compared then. */
bool cuda_on_other_stack(void);
