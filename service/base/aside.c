/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Tables of descriptors beside the process's own
 *
 * Descriptors are moved over a pair of sockets, one end of which is in the table. The table begins empty: a copy of the
 * process's table would keep files open that others close, and would have to be closed itself. So the table's thread
 * fetches its end.
 *
 * The table's threads make system calls without libc: sanitizers know of one table only, in which the same number is
 * another descriptor.
 */

#include <linux/close_range.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utlist.h>

#include "aside.h"
#include "common/macro.h"
#include "common/thread-util.h"
#include "waker.h"

#define THREAD_STACK ((size_t) 64 << 10)
/* Descriptors for the pair's end, and for those on their way from one number to another. */
#define RESERVED 16U

/* A descriptor on its way: its number in the table, and whether the process has closed its own copy. */
typedef struct Kept {
        int fd;
        bool is_moved;
        void *userdata;
        struct Kept *prev, *next;
} Kept;

struct Aside {
        atomic_uint n_refs;
        int fd;       /* the process's end of the pair */
        int their_fd; /* the table's end: its number in the process, and then in the table */
        int error;    /* 1: not known yet */
        aside_closed_t closed;
        pthread_mutex_t lock;
        pthread_cond_t more;
        Kept *coming, *kept; /* lists, the next first */
};

static void aside_unref(Aside *a) {
        if (atomic_fetch_sub(&a->n_refs, 1) > 1)
                return;
        (void) pthread_cond_destroy(&a->more);
        (void) pthread_mutex_destroy(&a->lock);
        free(a);
}

size_t aside_room(void) {
        struct rlimit l = {0};

        if (getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_cur <= RESERVED)
                return 0;
        return (size_t) l.rlim_cur - RESERVED;
}

/* --- in the table --- */

/* Returns the next descriptor whose copy in the process is closed. Closing this last copy may block. */
static Kept *next_kept(Aside *a) {
        (void) pthread_mutex_lock(&a->lock);
        while (!a->kept || !a->kept->is_moved)
                (void) pthread_cond_wait(&a->more, &a->lock);
        Kept *k = a->kept;
        DL_DELETE(a->kept, k);
        (void) pthread_mutex_unlock(&a->lock);
        return k;
}

static void *closer_main(void *userdata) {
        Aside *a = userdata;
        Waker waker;

        (void) pthread_setname_np(pthread_self(), "ends aside");
        waker_init(&waker, true);
        for (;;) {
                Kept *k = next_kept(a);
                waker_close(&waker, k->fd);
                a->closed(k->userdata);
                free(k);
        }
        return NULL;
}

static int own_table(Aside *a) {
        if (syscall(SYS_close_range, 0U, ~0U, CLOSE_RANGE_UNSHARE) < 0)
                return negative_errno();
        int self = pidfd_open(getpid(), 0);
        if (self < 0)
                return negative_errno();
        a->their_fd = pidfd_getfd(self, a->their_fd, 0);
        int r = a->their_fd < 0 ? negative_errno() : 0;
        (void) syscall(SYS_close, self);
        return r;
}

static void tell(Aside *a, int error) {
        (void) pthread_mutex_lock(&a->lock);
        a->error = error;
        (void) pthread_cond_broadcast(&a->more);
        (void) pthread_mutex_unlock(&a->lock);
}

/* Returns -EIO when the process's end is closed. */
static int receive(int from, int *ret) {
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int))];
        } control = {};
        char byte;
        struct iovec part = {.iov_base = &byte, .iov_len = 1};
        struct msghdr m = {
                        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
        ssize_t n;

        do
                n = syscall(SYS_recvmsg, from, &m, MSG_CMSG_CLOEXEC);
        while (n < 0 && errno == EINTR);
        if (n != 1)
                return -EIO;
        *ret = -EBADF;
        if (m.msg_controllen > 0 && control.header.cmsg_type == SCM_RIGHTS)
                memcpy(ret, CMSG_DATA(&control.header), sizeof(*ret));
        return 0;
}

static void keep(Aside *a, int fd) {
        (void) pthread_mutex_lock(&a->lock);
        Kept *k = a->coming;
        DL_DELETE(a->coming, k);
        k->fd = fd;
        DL_APPEND(a->kept, k);
        (void) pthread_cond_broadcast(&a->more);
        (void) pthread_mutex_unlock(&a->lock);
}

static void *keeper_main(void *userdata) {
        Aside *a = userdata;
        int fd;

        (void) pthread_setname_np(pthread_self(), "aside");
        int r = own_table(a);
        if (r >= 0)
                r = thread_start(closer_main, a, THREAD_STACK);
        tell(a, r);
        while (r >= 0 && receive(a->their_fd, &fd) >= 0)
                keep(a, fd);
        aside_unref(a);
        return NULL;
}

/* --- from outside --- */

static int start(Aside *a) {
        int r = thread_start(keeper_main, a, THREAD_STACK);

        if (r < 0) {
                aside_unref(a);
                return r;
        }
        (void) pthread_mutex_lock(&a->lock);
        while (a->error > 0)
                (void) pthread_cond_wait(&a->more, &a->lock);
        r = a->error;
        (void) pthread_mutex_unlock(&a->lock);
        return r;
}

int aside_new(aside_closed_t closed, Aside **ret) {
        Aside *a = malloc(sizeof(*a));
        int pair[2];

        if (!a)
                return -ENOMEM;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
                free(a);
                return negative_errno();
        }
        *a = (Aside){.n_refs = 2, .fd = pair[0], .their_fd = pair[1], .error = 1, .closed = closed};
        (void) pthread_mutex_init(&a->lock, NULL);
        (void) pthread_cond_init(&a->more, NULL);
        int r = start(a);
        safe_close(pair[1]);
        if (r < 0) {
                safe_close(pair[0]);
                aside_unref(a);
                return r;
        }
        *ret = a;
        return 0;
}

static int give(int to, int fd) {
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int))];
        } control = {.header = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
        char byte = 0;
        struct iovec part = {.iov_base = &byte, .iov_len = 1};
        const struct msghdr m = {
                        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
        ssize_t n;

        memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
        do
                n = sendmsg(to, &m, MSG_NOSIGNAL);
        while (n < 0 && errno == EINTR);
        return n < 0 ? negative_errno() : 0;
}

int aside_put(Aside *a, int fd, void *userdata) {
        Kept *k = malloc(sizeof(*k));

        if (!k)
                return -ENOMEM;
        *k = (Kept){.fd = -EBADF, .userdata = userdata};
        (void) pthread_mutex_lock(&a->lock);
        DL_APPEND(a->coming, k);
        (void) pthread_mutex_unlock(&a->lock);
        int r = give(a->fd, fd);
        if (r >= 0)
                safe_close(fd); /* not the last one */
        (void) pthread_mutex_lock(&a->lock);
        if (r < 0) {
                DL_DELETE(a->coming, k);
                free(k);
        } else
                k->is_moved = true;
        (void) pthread_cond_broadcast(&a->more);
        (void) pthread_mutex_unlock(&a->lock);
        return r;
}
