/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * futex(2), by hand, because libc has no wrapper
 *
 * Without FUTEX_PRIVATE_FLAG in `op`, other processes may wait on the word, too. As syscall(2): -1 and errno.
 */

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static inline long futex(
                _Atomic uint32_t *word, int op, uint32_t value, const struct timespec *timeout, uint32_t bits) {
        return syscall(SYS_futex, (uint32_t *) word, op, value, timeout, NULL, bits);
}
