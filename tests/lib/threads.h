/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Threads of this process, as the kernel sees them
 */

#include <stdbool.h>
#include <stdint.h>

/* How often the thread of that name has gone to sleep so far: what it does when it has nothing to do, and between two
 * looks when it polls. 0: there is no such thread. */
uint64_t thread_sleeps(const char *name);

/* How many threads of that name sleep in this very moment. */
unsigned threads_asleep(const char *name);

/* Whether it sleeps through a while. */
bool thread_is_asleep(const char *name);
