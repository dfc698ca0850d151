/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The test's own clock
 */

#include <time.h>

#include "common/time-util.h"
#include "tests/unit/own-clock.h"

/* The clock of a machine that has been up for a while. */
static uint64_t now = 1000 * NSEC_PER_SEC;

void own_clock_pass(uint64_t ns) {
        now += ns;
}

/* The linker's names: __wrap_ for the functions in place of libc's, __real_ for libc's. */
/* NOLINTBEGIN(bugprone-reserved-identifier) */
int __real_clock_gettime(clockid_t id, struct timespec *ret);
int __wrap_clock_gettime(clockid_t id, struct timespec *ret);
int __wrap_nanosleep(const struct timespec *request, struct timespec *ret_left);

int __wrap_clock_gettime(clockid_t id, struct timespec *ret) {
        if (id != CLOCK_MONOTONIC)
                return __real_clock_gettime(id, ret);
        now += OWN_CLOCK_READ_NS;
        *ret = ns_to_timespec(now);
        return 0;
}

/* A sleep is over at once. */
int __wrap_nanosleep(const struct timespec *request, struct timespec *ret_left) {
        own_clock_pass(timespec_to_ns(request));
        return 0;
}
/* NOLINTEND(bugprone-reserved-identifier) */
