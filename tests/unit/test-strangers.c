/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Descriptors that arrive at a socket: pidfds are kept, others are refused and closed
 */

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/macro.h"
#include "service/base/strangers.h"
#include "tests/lib/unit.h"

#define FDS_MAX 253U /* SCM_MAX_FD */

typedef union Control {
        struct cmsghdr header;
        char space[CMSG_SPACE(FDS_MAX * sizeof(int))];
} Control;

static void send_fds(int to, const int *fds, size_t n) {
        struct iovec byte = {.iov_base = (char[]){0}, .iov_len = 1};
        Control control = {0};
        struct msghdr m = {
                        .msg_iov = &byte,
                        .msg_iovlen = 1,
                        .msg_control = &control,
                        .msg_controllen = CMSG_SPACE(n * sizeof(int)),
        };
        control.header = (struct cmsghdr){
                        .cmsg_level = SOL_SOCKET,
                        .cmsg_type = SCM_RIGHTS,
                        .cmsg_len = CMSG_LEN(n * sizeof(int)),
        };
        memcpy(CMSG_DATA(&control.header), fds, n * sizeof(int));
        assert_int_equal(sendmsg(to, &m, 0), 1);
}

/* Receives descriptors. Returns their number. */
static size_t receive_fds(int at, int fds[static FDS_MAX]) {
        char byte;
        struct iovec room = {.iov_base = &byte, .iov_len = 1};
        Control control;
        struct msghdr m = {
                        .msg_iov = &room,
                        .msg_iovlen = 1,
                        .msg_control = &control,
                        .msg_controllen = sizeof(control),
        };
        assert_int_equal(recvmsg(at, &m, MSG_CMSG_CLOEXEC), 1);
        const struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        if (!c)
                return 0;
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(fds, CMSG_DATA(c), n * sizeof(int));
        return n;
}

static void close_pair(const int pair[static 2]) {
        safe_close(pair[0]);
        safe_close(pair[1]);
}

/* Waits until all copies of the descriptor are closed. */
static void wait_for_hang_up(int other_end) {
        struct pollfd p = {.fd = other_end, .events = POLLIN};

        assert_int_equal(poll(&p, 1, -1), 1);
        assert_true(p.revents & POLLHUP);
}

static void test_pidfds_stay(void **state) {
        int bus[2] = {-EBADF, -EBADF}, stranger[2] = {-EBADF, -EBADF}, got[FDS_MAX] = {0};

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, bus), 0);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, stranger), 0);
        int pidfd = pidfd_open(getpid(), 0);
        assert_true(pidfd >= 0);

        strangers_watch(bus[1]);
        send_fds(bus[0], (int[]){stranger[1], pidfd, stranger[1], pidfd}, 4);
        safe_close(stranger[1]);
        assert_int_equal(receive_fds(bus[1], got), 4);
        assert_int_equal(got[0], -EBADF);
        assert_int_equal(got[2], -EBADF);
        for (size_t i = 1; i < 4; i += 2) {
                assert_int_equal(pidfd_send_signal(got[i], 0, NULL, 0), 0);
                assert_true(fcntl(got[i], F_GETFD) & FD_CLOEXEC);
                safe_close(got[i]);
        }
        wait_for_hang_up(stranger[0]);

        strangers_watch(-EBADF);
        safe_close(stranger[0]);
        safe_close(pidfd);
        close_pair(bus);
}

/* A file is not taken for a pidfd because of its name. */
static void test_names(void **state) {
        char directory[] = "/tmp/xsched-test-strangers-XXXXXX";
        int bus[2] = {-EBADF, -EBADF}, got[FDS_MAX] = {0}, here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        assert_true(here >= 0);
        assert_non_null(mkdtemp(directory));
        assert_int_equal(chdir(directory), 0);
        int file = open("anon_inode:[pidfd]", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        assert_true(file >= 0);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, bus), 0);

        strangers_watch(bus[1]);
        send_fds(bus[0], &file, 1);
        assert_int_equal(receive_fds(bus[1], got), 1);
        assert_int_equal(got[0], -EBADF);

        strangers_watch(-EBADF);
        assert_int_equal(unlink("anon_inode:[pidfd]"), 0);
        assert_int_equal(fchdir(here), 0);
        assert_int_equal(rmdir(directory), 0);
        safe_close(file);
        safe_close(here);
        close_pair(bus);
}

/* As many descriptors as fit a message, again and again: all of them are closed. */
static void test_many(void **state) {
        int bus[2] = {-EBADF, -EBADF}, stranger[2] = {-EBADF, -EBADF}, sent[FDS_MAX], got[FDS_MAX] = {0};

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, bus), 0);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, stranger), 0);
        for (size_t i = 0; i < FDS_MAX; i++)
                sent[i] = stranger[1];
        strangers_watch(bus[1]);
        for (unsigned i = 0; i < 20; i++) {
                send_fds(bus[0], sent, FDS_MAX);
                assert_int_equal(receive_fds(bus[1], got), FDS_MAX);
                for (size_t k = 0; k < FDS_MAX; k++)
                        assert_int_equal(got[k], -EBADF);
        }
        safe_close(stranger[1]);
        wait_for_hang_up(stranger[0]);

        strangers_watch(-EBADF);
        safe_close(stranger[0]);
        close_pair(bus);
}

/* Descriptors that arrive at other sockets are not touched. */
static void test_other_sockets(void **state) {
        int bus[2] = {-EBADF, -EBADF}, other[2] = {-EBADF, -EBADF}, got[FDS_MAX] = {0};

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, bus), 0);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, other), 0);
        strangers_watch(bus[1]);
        send_fds(other[0], bus, 2);
        assert_int_equal(receive_fds(other[1], got), 2);
        assert_true(fcntl(got[0], F_GETFD) >= 0);
        assert_true(fcntl(got[1], F_GETFD) >= 0);

        strangers_watch(-EBADF);
        close_pair(got);
        close_pair(other);
        close_pair(bus);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_pidfds_stay),
                        cmocka_unit_test(test_names),
                        cmocka_unit_test(test_many),
                        cmocka_unit_test(test_other_sockets),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
