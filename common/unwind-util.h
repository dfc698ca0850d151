/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Who called us
 */

#include <stdbool.h>

/* Whether a signal handler called us: then nothing may be called that a handler must not call, because the code that it
 * interrupted may be in the middle of it. The unwinder of GCC 12 and glibc 2.35 takes no lock. Code without unwind
 * tables ends the search early. Some 10 us. */
bool in_signal_handler(void);
