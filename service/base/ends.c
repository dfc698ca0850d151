/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Closing ends of guests
 *
 * Users take turns, one socket each. Each thread has a timer of its own, by which the kernel sends it a signal while it
 * closes: what can be interrupted does not outlast that.
 */

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <uthash.h>
#include <utlist.h>

#include "common/macro.h"
#include "common/thread-util.h"
#include "ends.h"

#define THREADS_MAX 64U
#define DRAIN_MAX   4U
/* Of the service no other part uses it. */
#define WAKE_SIGNAL  SIGUSR2
#define WAKE_NS      (20L * 1000 * 1000)
#define THREAD_STACK ((size_t) 64 << 10)

#ifndef sigev_notify_thread_id
#        define sigev_notify_thread_id _sigev_un._tid
#endif

/* A user with something to be closed. */
typedef struct Leaving {
        uid_t user;
        int *fds;
        size_t n_fds, n_allocated;
        bool is_closing;             /* a thread has one of them */
        struct Leaving *prev, *next; /* of those that wait for a thread */
        UT_hash_handle hh;
} Leaving;

static struct {
        pthread_mutex_t lock;
        pthread_cond_t more;
        Leaving *users;   /* uthash, by user */
        Leaving *waiting; /* list, the next first */
        unsigned n_threads, n_idle;
        bool is_prepared;
} ends = {
                .lock = PTHREAD_MUTEX_INITIALIZER,
                .more = PTHREAD_COND_INITIALIZER,
};

/* --- reading --- */

void end_prepare(int fd) {
        const int on = 1;

        /* What is sent out of band could not be seen otherwise, nor what came with it. */
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

static void on_signal(int signal) {
        /* That it comes is all. */
}

/* Nothing of a thread's own has to be woken: whoever else gets the signal is not disturbed. */
static void prepare_signal(void) {
        const struct sigaction a = {.sa_handler = on_signal};

        (void) sigaction(WAKE_SIGNAL, &a, NULL);
}

static bool prepare_timer(timer_t *ret) {
        struct sigevent e = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = WAKE_SIGNAL};
        sigset_t set;

        e.sigev_notify_thread_id = gettid();
        (void) sigemptyset(&set);
        (void) sigaddset(&set, WAKE_SIGNAL);
        return timer_create(CLOCK_MONOTONIC, &e, ret) == 0 && pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0;
}

/* Again and again: the first may come before there is anything to be woken from. */
static void set_timer(timer_t timer, long ns) {
        const struct itimerspec t = {.it_value.tv_nsec = ns, .it_interval.tv_nsec = ns};

        (void) timer_settime(timer, 0, &t, NULL);
}

/* Entered and left with the lock. */
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
static void end_closed(Leaving *u) {
        u->is_closing = false;
        if (u->n_fds > 0) {
                DL_APPEND(ends.waiting, u);
                return;
        }
        HASH_DEL(ends.users, u);
        free(u->fds);
        free(u);
}

static void *ends_main(void *unused) {
        timer_t timer;
        Leaving *u;

        (void) pthread_setname_np(pthread_self(), "ends");
        bool wakes = prepare_timer(&timer);
        (void) pthread_mutex_lock(&ends.lock);
        for (;;) {
                int fd = next_end(&u);
                (void) pthread_mutex_unlock(&ends.lock);
                if (wakes)
                        set_timer(timer, WAKE_NS);
                safe_close(fd);
                if (wakes)
                        set_timer(timer, 0);
                (void) pthread_mutex_lock(&ends.lock);
                end_closed(u);
        }
        return NULL;
}

/* One more, if all are at work. */
static void start_thread(void) {
        if (ends.n_idle > 0 || ends.n_threads >= THREADS_MAX)
                return;
        if (!ends.is_prepared)
                prepare_signal();
        ends.is_prepared = true;
        ends.n_threads += thread_start(ends_main, NULL, THREAD_STACK) >= 0;
}

static bool leaving_grow(Leaving *u) {
        if (u->n_fds < u->n_allocated)
                return true;
        size_t n = MAX(2 * u->n_allocated, (size_t) 16);
        int *fds = reallocarray(u->fds, n, sizeof(*fds));
        if (!fds)
                return false;
        u->fds = fds;
        u->n_allocated = n;
        return true;
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

void end_close(int fd, uid_t user) {
        if (fd < 0)
                return;
        (void) pthread_mutex_lock(&ends.lock);
        Leaving *u = leaving_get(user);
        if (u && leaving_grow(u)) {
                u->fds[u->n_fds++] = fd;
                if (u->n_fds == 1 && !u->is_closing)
                        DL_APPEND(ends.waiting, u);
                start_thread();
                (void) pthread_cond_signal(&ends.more);
        }
        (void) pthread_mutex_unlock(&ends.lock);
}

size_t ends_left(uid_t user) {
        (void) pthread_mutex_lock(&ends.lock);
        const Leaving *u = leaving_find(user);
        size_t n = u ? u->n_fds + u->is_closing : 0;
        (void) pthread_mutex_unlock(&ends.lock);
        return n;
}
