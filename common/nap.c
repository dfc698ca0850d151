/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Sleeps that are no cancellation points
 */

#include "common/nap.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "common/time-util.h"

void nap(uint64_t ns) {
        struct timespec ts = ns_to_timespec(ns);

        (void) syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &ts, NULL);
}
