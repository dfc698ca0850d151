/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Threads in somebody else's process
 */

#include "common/thread-util.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

static int thread_spawn(void *(*main)(void *), void *userdata, size_t stack_size) {
        pthread_attr_t attr;
        pthread_t thread;
        sigset_t all;

        (void) sigfillset(&all);
        int r = pthread_attr_init(&attr);
        if (r > 0)
                return -r;
        (void) pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        (void) pthread_attr_setsigmask_np(&attr, &all);
        if (stack_size > 0)
                (void) pthread_attr_setstacksize(&attr, stack_size);
        r = pthread_create(&thread, &attr, main, userdata);
        (void) pthread_attr_destroy(&attr);
        return -r;
}

int thread_start(void *(*main)(void *userdata), void *userdata, size_t stack_size) {
        int r = thread_spawn(main, userdata, stack_size);

        return r == -EINVAL && stack_size > 0 ? thread_spawn(main, userdata, 0) : r;
}
