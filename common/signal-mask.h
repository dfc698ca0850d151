/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Blocks signals of this thread while it changes shared state
 *
 * A handler of the application may never return (siglongjmp()), and the code that it interrupted is never finished:
 * locks stay taken. Signals that a thread causes itself, and those of a filter of system calls, are let through; so are
 * those by which glibc makes all threads of a process act at once (setuid()), because a thread with a lock of glibc's
 * waits for that. Asynchronous cancellation is blocked, too, which pthread_sigmask() does not do.
 */

#include <pthread.h>
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

#define SIGNALS_BLOCKED                                                                                                \
        _cleanup_(signal_mask_restore)                                                                                 \
        _unused_ uint64_t _signals = signal_mask_block()

/* For calls of libc's that are points of cancellation, as close() is, in a function that is none: a thread with a
 * request pending would end in the middle. */
static inline int cancels_block(void) {
        int before = PTHREAD_CANCEL_ENABLE; /* libc alone, before 2.34 and without threads, does not write it */

        (void) pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
        return before;
}

static inline void cancels_restore(const int *before) {
        (void) pthread_setcancelstate(*before, NULL);
}

#define CANCELS_BLOCKED                                                                                                \
        _cleanup_(cancels_restore)                                                                                     \
        _unused_ int _cancels = cancels_block()
