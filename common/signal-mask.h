/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Signals of this thread, put off for as long as something of ours is half done
 *
 * A handler of the application's may never come back (siglongjmp()), and what it has interrupted is never finished:
 * locks stay taken. What a thread does to itself, and what a filter of system calls answers, is let through; so is
 * what glibc has all threads of a process do at once (setuid()), for which somebody waits who has a lock of glibc's.
 * Cancellation is put off, too, which pthread_sigmask() does not do.
 */

#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/macro.h"

#define SIGNAL_MASK_BIT(sig) (UINT64_C(1) << ((sig) -1))
#define SIGNAL_MASK_SETXID   33

static inline uint64_t signal_mask_block(void) {
        uint64_t through = SIGNAL_MASK_BIT(SIGSEGV) | SIGNAL_MASK_BIT(SIGBUS) | SIGNAL_MASK_BIT(SIGFPE) |
                        SIGNAL_MASK_BIT(SIGILL) | SIGNAL_MASK_BIT(SIGTRAP) | SIGNAL_MASK_BIT(SIGSYS) |
                        SIGNAL_MASK_BIT(SIGABRT) | SIGNAL_MASK_BIT(SIGNAL_MASK_SETXID);
        uint64_t all = ~through, before = 0;
        PROTECT_ERRNO;

        (void) syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, &before, sizeof(before));
        return before;
}

static inline void signal_mask_restore(const uint64_t *before) {
        PROTECT_ERRNO;

        (void) syscall(SYS_rt_sigprocmask, SIG_SETMASK, before, NULL, sizeof(*before));
}

#define SIGNALS_BLOCKED                                                                                     \
        _cleanup_(signal_mask_restore)                                                                      \
        _unused_ uint64_t _signals = signal_mask_block()
