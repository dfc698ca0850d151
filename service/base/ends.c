/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Closing ends of guests
 *
 * Users take turns, one socket each. While there is a thread to be had soon, a user's sockets wait among the process's
 * descriptors. A user with more of them gets a table of descriptors of the user's own (aside.h), until they are closed.
 */

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uthash.h>
#include <utlist.h>

#include "aside.h"
#include "common/array.h"
#include "common/macro.h"
#include "common/thread-util.h"
#include "ends.h"
#include "waker.h"

#define THREADS_MAX  64U
#define DRAIN_MAX    4U
#define THREAD_STACK ((size_t) 64 << 10)
#define ASIDES_MAX   64U

/* A user with sockets to be closed. */
typedef struct Leaving {
        uid_t user;
        int *fds;
        size_t n_fds, n_allocated;
        bool is_closing; /* a thread is closing one of them */
        Aside *aside;    /* NULL: nothing is there */
        size_t n_aside;
        struct Leaving *prev, *next; /* in the list of those that wait for a thread */
        UT_hash_handle hh;
} Leaving;

static struct {
        pthread_mutex_t lock;
        pthread_cond_t more;
        Leaving *users;   /* uthash, by user */
        Leaving *waiting; /* list, the next first */
        unsigned n_threads, n_idle;
        Aside *asides[ASIDES_MAX]; /* that no user has */
        unsigned n_asides, n_asides_made;
} ends = {
                .lock = PTHREAD_MUTEX_INITIALIZER,
                .more = PTHREAD_COND_INITIALIZER,
};

/* --- reading --- */

void end_prepare(int fd) {
        const int on = 1;

        /* Without this option a peek would not see data that was sent out of band, nor descriptors that came with
         * it. */
        (void) setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on));
}

ssize_t end_peek(int fd, void *data, size_t size) {
        struct iovec part = {.iov_base = data, .iov_len = size};
        struct msghdr h = {.msg_iov = &part, .msg_iovlen = 1};
        ssize_t n = recvmsg(fd, &h, MSG_PEEK | MSG_DONTWAIT);

        if (n < 0)
                return negative_errno();
        return h.msg_flags & MSG_CTRUNC ? -EBADMSG : n;
}

bool end_is_drained(int fd, bool *ret_strange) {
        char data[4096];

        for (unsigned i = 0; i < DRAIN_MAX; i++) {
                ssize_t n = end_peek(fd, data, sizeof(data));

                if (n == -EBADMSG)
                        *ret_strange = true;
                if (n <= 0)
                        return n != -EBADMSG;
                if (recv(fd, data, (size_t) n, MSG_DONTWAIT) != n)
                        return false;
        }
        return false;
}

/* --- closing --- */

/* Called with the lock, and returns with it. */
static int next_end(Leaving **ret) {
        while (!ends.waiting) {
                ends.n_idle++;
                (void) pthread_cond_wait(&ends.more, &ends.lock);
                ends.n_idle--;
        }
        Leaving *u = ends.waiting;
        DL_DELETE(ends.waiting, u);
        u->is_closing = true;
        *ret = u;
        return u->fds[--u->n_fds];
}

/* As above. */
static void leaving_gc(Leaving *u) {
        if (u->n_fds > 0 || u->is_closing || u->aside)
                return;
        HASH_DEL(ends.users, u);
        free(u->fds);
        free(u);
}

/* As above. */
static void end_closed(Leaving *u) {
        u->is_closing = false;
        if (u->n_fds > 0)
                DL_APPEND(ends.waiting, u);
        leaving_gc(u);
}

static void *ends_main(void *unused) {
        Waker waker;
        Leaving *u;

        (void) pthread_setname_np(pthread_self(), "ends");
        waker_init(&waker, false);
        (void) pthread_mutex_lock(&ends.lock);
        for (;;) {
                int fd = next_end(&u);
                (void) pthread_mutex_unlock(&ends.lock);
                waker_close(&waker, fd);
                (void) pthread_mutex_lock(&ends.lock);
                end_closed(u);
        }
        return NULL;
}

/* Starts one more thread if all are busy. */
static void start_thread(void) {
        if (ends.n_idle > 0 || ends.n_threads >= THREADS_MAX)
                return;
        ends.n_threads += thread_start(ends_main, NULL, THREAD_STACK) >= 0;
}

static bool leaving_grow(Leaving *u) {
        int *fds = array_reserve(u->fds, &u->n_allocated, u->n_fds + 1, sizeof(int));

        if (fds)
                u->fds = fds;
        return fds;
}

static Leaving *leaving_find(uid_t user) {
        Leaving *u;

        HASH_FIND(hh, ends.users, &user, sizeof(user), u);
        return u;
}

static Leaving *leaving_get(uid_t user) {
        Leaving *u = leaving_find(user);

        if (u)
                return u;
        u = calloc(1, sizeof(*u));
        if (!u)
                return NULL;
        u->user = user;
        HASH_ADD(hh, ends.users, user, sizeof(u->user), u);
        return u;
}

/* --- aside --- */

static void on_closed_aside(void *userdata) {
        Leaving *u = userdata;

        (void) pthread_mutex_lock(&ends.lock);
        if (--u->n_aside == 0) {
                ends.asides[ends.n_asides++] = u->aside;
                u->aside = NULL;
        }
        leaving_gc(u);
        (void) pthread_mutex_unlock(&ends.lock);
}

static bool leaving_get_aside(Leaving *u) {
        if (u->aside)
                return true;
        if (ends.n_asides == 0 && ends.n_asides_made < ASIDES_MAX && aside_new(on_closed_aside, ends.asides) >= 0) {
                ends.n_asides_made++;
                ends.n_asides = 1;
        }
        if (ends.n_asides == 0)
                return false;
        u->aside = ends.asides[--ends.n_asides];
        return true;
}

/* Moves the socket into the user's table. It is counted before, because the table's thread may close it at once. */
static bool end_aside(Leaving *u, int fd) {
        if (u->n_fds < ENDS_HERE_MAX || u->n_aside >= aside_room() || !leaving_get_aside(u))
                return false;
        u->n_aside++;
        if (aside_put(u->aside, fd, u) >= 0)
                return true;
        if (--u->n_aside == 0) {
                ends.asides[ends.n_asides++] = u->aside;
                u->aside = NULL;
        }
        return false;
}

static void end_here(Leaving *u, int fd) {
        if (!leaving_grow(u))
                return;
        u->fds[u->n_fds++] = fd;
        if (u->n_fds == 1 && !u->is_closing)
                DL_APPEND(ends.waiting, u);
        start_thread();
        (void) pthread_cond_signal(&ends.more);
}

void end_close(int fd, uid_t user) {
        if (fd < 0)
                return;
        (void) pthread_mutex_lock(&ends.lock);
        Leaving *u = leaving_get(user);
        if (u && !end_aside(u, fd))
                end_here(u, fd);
        (void) pthread_mutex_unlock(&ends.lock);
}

size_t ends_left(uid_t user) {
        (void) pthread_mutex_lock(&ends.lock);
        const Leaving *u = leaving_find(user);
        size_t n = u ? u->n_fds : 0;
        (void) pthread_mutex_unlock(&ends.lock);
        return n;
}
