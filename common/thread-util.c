/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Threads in other people's processes
 */

#include "common/thread-util.h"

#include <errno.h>
#include <pthread.h>

/* Where libc has no threads in this process: old-glibc.h. */
#pragma weak pthread_attr_setstacksize
#pragma weak pthread_create
#pragma weak pthread_sigmask

/* Where the program handles SIGSYS by itself, a filter of system calls (SECCOMP_RET_TRAP) asks it about our calls, too;
 * with the signal blocked, the kernel would end the process. */
void thread_block_signals(sigset_t *ret_before) {
        sigset_t all;

        (void) sigemptyset(ret_before);
        if (!pthread_sigmask)
                return;
        (void) sigfillset(&all);
        (void) pthread_sigmask(SIG_SETMASK, NULL, ret_before);
        if (sigismember(ret_before, SIGSYS) == 0)
                (void) sigdelset(&all, SIGSYS);
        (void) pthread_sigmask(SIG_SETMASK, &all, NULL);
}

void thread_restore_signals(const sigset_t *before) {
        if (pthread_sigmask)
                (void) pthread_sigmask(SIG_SETMASK, before, NULL);
}

static int thread_spawn(void *(*main)(void *), void *userdata, size_t stack_size) {
        pthread_attr_t attr;
        pthread_t thread;
        sigset_t before;

        if (!pthread_create || !pthread_attr_setstacksize || !pthread_sigmask)
                return -ENOSYS;
        int r = pthread_attr_init(&attr);
        if (r > 0)
                return -r;
        (void) pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        if (stack_size > 0)
                (void) pthread_attr_setstacksize(&attr, stack_size);
        /* The new thread inherits the signal mask of the thread that makes it: glibc can set another one only since
         * 2.32. */
        thread_block_signals(&before);
        r = pthread_create(&thread, &attr, main, userdata);
        thread_restore_signals(&before);
        (void) pthread_attr_destroy(&attr);
        return -r;
}

int thread_start(void *(*main)(void *userdata), void *userdata, size_t stack_size) {
        int r = thread_spawn(main, userdata, stack_size);

        return r == -EINVAL && stack_size > 0 ? thread_spawn(main, userdata, 0) : r;
}

/* libc's function behind pthread_atfork(), which is itself linked into each library that calls it. */
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *dso)
                __attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

int thread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void)) {
        return __register_atfork ? -__register_atfork(prepare, parent, child, &__dso_handle) : -ENOSYS;
}
