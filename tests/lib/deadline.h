/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Waiting for what has no event: a condition, looked at again and again until a deadline far beyond any honest delay
 */

#include <sched.h>

#include "common/time-util.h"

#define TEST_DEADLINE_NS (20 * NSEC_PER_SEC)

/* True as soon as `condition` is; false when it was not before the deadline. */
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
