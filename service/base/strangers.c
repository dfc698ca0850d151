/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Turning strangers away
 *
 * A thread that is held up by one stranger keeps no other one waiting, as long as there may be one more thread.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/array.h"
#include "common/fd-message.h"
#include "common/macro.h"
#include "common/process.h"
#include "strangers.h"

#define THREADS_MAX 16U

static struct {
        int watched;
        pthread_mutex_t lock;
        pthread_cond_t more;
        int *fds;
        size_t n_fds, n_allocated;
        unsigned n_threads, n_idle;
} strangers = {
                .watched = -EBADF,
                .lock = PTHREAD_MUTEX_INITIALIZER,
                .more = PTHREAD_COND_INITIALIZER,
};

/* Turns SO_LINGER off before it closes a socket: data that was not sent yet is the stranger's, and nobody here waits
 * for it. */
static void close_stranger(int fd) {
        const struct linger off = {0};

        (void) setsockopt(fd, SOL_SOCKET, SO_LINGER, &off, sizeof(off));
        safe_close(fd);
}

static void *strangers_main(void *unused) {
        (void) pthread_setname_np(pthread_self(), "strangers");
        (void) pthread_mutex_lock(&strangers.lock);
        for (;;) {
                while (strangers.n_fds == 0) {
                        strangers.n_idle++;
                        (void) pthread_cond_wait(&strangers.more, &strangers.lock);
                        strangers.n_idle--;
                }
                int fd = strangers.fds[--strangers.n_fds];
                (void) pthread_mutex_unlock(&strangers.lock);
                close_stranger(fd);
                (void) pthread_mutex_lock(&strangers.lock);
        }
        return NULL;
}

/* Starts one more thread if all are busy. */
static void start_thread(void) {
        pthread_attr_t a;
        pthread_t thread;

        if (strangers.n_idle >= strangers.n_fds || strangers.n_threads >= THREADS_MAX || pthread_attr_init(&a) != 0)
                return;
        (void) pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
        strangers.n_threads += pthread_create(&thread, &a, strangers_main, NULL) == 0;
        (void) pthread_attr_destroy(&a);
}

static bool grow(void) {
        int *fds = array_reserve(strangers.fds, &strangers.n_allocated, strangers.n_fds + 1, sizeof(int));

        if (fds)
                strangers.fds = fds;
        return fds;
}

/* Without memory the fd stays open, because closing it here may take for ever. */
static void give_away(int fd) {
        (void) pthread_mutex_lock(&strangers.lock);
        if (grow()) {
                strangers.fds[strangers.n_fds++] = fd;
                start_thread();
                (void) pthread_cond_signal(&strangers.more);
        }
        (void) pthread_mutex_unlock(&strangers.lock);
}

static void turn_away(int *fd, void *userdata) {
        if (fd_is_pidfd(*fd))
                return;
        give_away(*fd);
        *fd = -EBADF;
}

void strangers_watch(int fd) {
        strangers.watched = fd;
}

/* Replaces the C library's recvmsg(). It is exported, because libsystemd is linked to this program and calls it. */
_public_
ssize_t recvmsg(int fd, struct msghdr *message, int flags) {
        ssize_t n = syscall(SYS_recvmsg, fd, message, flags);

        if (n >= 0 && fd == strangers.watched)
                fd_message_each(message, turn_away, NULL);
        return n;
}
