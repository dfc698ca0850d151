/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Closes fds that clients share
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <systemd/sd-daemon.h>

#include "closer.h"
#include "common/array.h"
#include "common/macro.h"

/* For so long the closer waits for the service manager to close its copies. After that it closes its own, which may
 * then not be the last ones. */
#define CLOSER_BARRIER_USEC (UINT64_C(5) * 1000 * 1000)

static struct {
        pthread_mutex_t lock;
        pthread_cond_t more, done;
        int *fds;
        size_t n_fds, n_allocated;
        bool is_running;
        bool is_busy, is_waiting; /* is_waiting: for the service manager */
        bool is_finishing;
} closer = {
                .lock = PTHREAD_MUTEX_INITIALIZER,
                .more = PTHREAD_COND_INITIALIZER,
                .done = PTHREAD_COND_INITIALIZER,
};

/* Closes all fds that were given so far. The caller has the lock, which is released while files are closed. */
static void close_all(void) {
        int *fds = TAKE_PTR(closer.fds);
        size_t n = closer.n_fds;
        bool wait = !closer.is_finishing;

        closer.n_fds = closer.n_allocated = 0;
        closer.is_busy = true;
        closer.is_waiting = wait;
        (void) pthread_mutex_unlock(&closer.lock);
        if (wait) {
                (void) sd_notify_barrier(0, CLOSER_BARRIER_USEC);
                (void) pthread_mutex_lock(&closer.lock);
                closer.is_waiting = false;
                (void) pthread_mutex_unlock(&closer.lock);
        }
        for (size_t i = 0; i < n; i++)
                safe_close(fds[i]);
        free(fds);
        (void) pthread_mutex_lock(&closer.lock);
        closer.is_busy = false;
}

static void *closer_main(void *unused) {
        (void) pthread_setname_np(pthread_self(), "closer");
        (void) pthread_mutex_lock(&closer.lock);
        for (;;) {
                while (closer.n_fds > 0)
                        close_all();
                (void) pthread_cond_broadcast(&closer.done);
                (void) pthread_cond_wait(&closer.more, &closer.lock);
        }
        return NULL;
}

static bool closer_start(void) {
        pthread_attr_t a;
        pthread_t thread;

        if (closer.is_running)
                return true;
        if (pthread_attr_init(&a) != 0)
                return false;
        (void) pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
        closer.is_running = pthread_create(&thread, &a, closer_main, NULL) == 0;
        (void) pthread_attr_destroy(&a);
        return closer.is_running;
}

static bool closer_grow(void) {
        int *fds = array_reserve(closer.fds, &closer.n_allocated, closer.n_fds + 1, sizeof(int));

        if (fds)
                closer.fds = fds;
        return fds;
}

void closer_take(int fd) {
        _cleanup_close_ int here = fd;

        if (fd < 0)
                return;
        (void) pthread_mutex_lock(&closer.lock);
        if (closer_start() && closer_grow()) {
                closer.fds[closer.n_fds++] = TAKE_FD(here);
                (void) pthread_cond_signal(&closer.more);
        }
        (void) pthread_mutex_unlock(&closer.lock);
}

void closer_finish(void) {
        (void) pthread_mutex_lock(&closer.lock);
        closer.is_finishing = true;
        while ((closer.n_fds > 0 || closer.is_busy) && !closer.is_waiting)
                (void) pthread_cond_wait(&closer.done, &closer.lock);
        closer.is_finishing = false;
        (void) pthread_mutex_unlock(&closer.lock);
}
