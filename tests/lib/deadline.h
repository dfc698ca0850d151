/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Deadline: waits for a condition that has no event, by looking again and again, until a deadline far beyond any honest
 * delay
 */

#include <sched.h>

#include "common/time-util.h"

#define TEST_DEADLINE_NS (20 * NSEC_PER_SEC)

/* Returns true as soon as `condition` is true; false when it was not before the deadline. */
#define poll_until(condition)                                                                                          \
        ({                                                                                                             \
                uint64_t _until = now_ns() + TEST_DEADLINE_NS;                                                         \
                bool _ok;                                                                                              \
                while (!(_ok = (condition)) && now_ns() < _until) {                                                    \
                        struct timespec _nap = {.tv_nsec = 200000};                                                    \
                        (void) nanosleep(&_nap, NULL);                                                                 \
                }                                                                                                      \
                _ok;                                                                                                   \
        })
