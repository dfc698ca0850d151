/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The fd store: descriptors that are sent to the service manager, and the use of those that it returns
 *
 * A datagram socket of our own is $NOTIFY_SOCKET. Collecting happens in a child with the fds from 3 on, as systemd
 * passes them.
 */

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "service/base/fdstore.h"
#include "service/base/log.h"

static char directory[] = "/tmp/xsched-test-fdstore-XXXXXX";
static char notify_path[64];
static int manager = -EBADF;

static int setup_group(void **state) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};

        log_set_max_level(LOG_EMERG);
        if (!mkdtemp(directory))
                return -1;
        (void) snprintf(notify_path, sizeof(notify_path), "%s/notify", directory);
        (void) snprintf(address.sun_path, sizeof(address.sun_path), "%s", notify_path);
        manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (manager < 0 || bind(manager, (struct sockaddr *) &address, sizeof(address)) < 0)
                return -1;
        /* Moves the socket away from the fds from 3 on. */
        int high = fcntl(manager, F_DUPFD_CLOEXEC, 200);
        safe_close(manager);
        manager = high;
        return high < 0 ? -1 : setenv("NOTIFY_SOCKET", notify_path, 1);
}

static int teardown_group(void **state) {
        (void) unlink(notify_path);
        return rmdir(directory);
}

/* The next notification, "" when there is none, and its fd if it carries one. */
static const char *receive(int *ret_fd) {
        static char text[1024];
        union {
                char bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
                struct cmsghdr align;
        } control;
        struct iovec iov = {.iov_base = text, .iov_len = sizeof(text) - 1};
        struct msghdr m = {
                        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};

        ssize_t n = recvmsg(manager, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        text[n > 0 ? n : 0] = '\0';
        int fd = -EBADF;
        for (struct cmsghdr *c = n >= 0 ? CMSG_FIRSTHDR(&m) : NULL; c; c = CMSG_NXTHDR(&m, c))
                if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
                        memcpy(&fd, CMSG_DATA(c), sizeof(fd));
        if (ret_fd)
                *ret_fd = fd;
        else
                safe_close(fd);
        return text;
}

static bool same_file(int a, int b) {
        struct stat x, y;
        return fstat(a, &x) >= 0 && fstat(b, &y) >= 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static StoredClient make_client(uint64_t id) {
        int pair[2];
        assert_return_code(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), errno);
        safe_close(pair[1]);
        return (StoredClient){
                        .id = id,
                        .fds =
                                        {
                                                        [FD_PAGE] = memfd_create(
                                                                        "page", MFD_CLOEXEC | MFD_ALLOW_SEALING),
                                                        [FD_LIFELINE] = pair[0],
                                                        [FD_WAKE] = eventfd(0, EFD_CLOEXEC),
                                                        [FD_PIDFD] = pidfd_open(getpid(), 0),
                                                        [FD_META] = memfd_create("meta", MFD_CLOEXEC),
                                        },
        };
}

static void close_client(StoredClient *c) {
        for (FdRole r = 0; r < _FD_ROLE_MAX; r++)
                c->fds[r] = safe_close(c->fds[r]);
}

static void test_push_and_remove(void **state) {
        StoredClient c = make_client(12);

        assert_int_equal(fdstore_push(&c), 1);
        for (FdRole r = 0; r < _FD_ROLE_MAX; r++) {
                char expected[128];
                int fd;
                (void) snprintf(expected, sizeof(expected), "FDSTORE=1\nFDPOLL=0\nFDNAME=c12-%s", fd_role_to_string(r));
                assert_string_equal(receive(&fd), expected);
                assert_true(same_file(fd, c.fds[r]));
                safe_close(fd);
        }
        assert_string_equal(receive(NULL), "");

        assert_int_equal(fdstore_remove(12), 1);
        for (FdRole r = 0; r < _FD_ROLE_MAX; r++) {
                char expected[128];
                (void) snprintf(expected, sizeof(expected), "FDSTOREREMOVE=1\nFDNAME=c12-%s", fd_role_to_string(r));
                assert_string_equal(receive(NULL), expected);
        }
        assert_string_equal(receive(NULL), "");
        close_client(&c);
}

static void test_push_fails_whole(void **state) {
        StoredClient c = make_client(UINT64_MAX);

        c.fds[FD_WAKE] = safe_close(c.fds[FD_WAKE]);
        assert_true(fdstore_push(&c) < 0);
        assert_string_equal(receive(NULL), "FDSTORE=1\nFDPOLL=0\nFDNAME=c18446744073709551615-page");
        assert_string_equal(receive(NULL), "FDSTORE=1\nFDPOLL=0\nFDNAME=c18446744073709551615-lifeline");
        for (FdRole r = 0; r < _FD_ROLE_MAX; r++)
                assert_non_null(startswith(receive(NULL), "FDSTOREREMOVE=1\nFDNAME=c18446744073709551615-"));
        assert_string_equal(receive(NULL), "");
        close_client(&c);
}

static void test_without_manager(void **state) {
        StoredClient c = make_client(1);

        (void) unsetenv("NOTIFY_SOCKET");
        assert_int_equal(fdstore_push(&c), 0);
        assert_int_equal(fdstore_remove(1), 0);
        assert_int_equal(fdstore_push_state(c.fds[FD_META]), 0);
        (void) setenv("NOTIFY_SOCKET", notify_path, 1);
        assert_string_equal(receive(NULL), "");
        close_client(&c);
}

static void test_state(void **state) {
        _cleanup_close_ int fd = memfd_create("state", MFD_CLOEXEC);

        assert_int_equal(fdstore_push_state(fd), 1);
        assert_string_equal(receive(NULL), "FDSTOREREMOVE=1\nFDNAME=manager-state");
        assert_string_equal(receive(NULL), "FDSTORE=1\nFDPOLL=0\nFDNAME=manager-state");
        assert_string_equal(receive(NULL), "");
}

/* --- handed back --- */

typedef struct Handed {
        const char *name;
        int fd;
} Handed;

/* Messages of the child to the manager. Read while it runs: the socket's queue is short. */
static char told[64][128];
static size_t n_told;

static void await_child(pid_t pid) {
        _cleanup_close_ int pidfd = pidfd_open(pid, 0);
        struct pollfd fds[] = {{.fd = manager, .events = POLLIN}, {.fd = pidfd, .events = POLLIN}};

        n_told = 0;
        do {
                assert_return_code(poll(fds, ELEMENTSOF(fds), -1), errno);
                for (const char *s; !isempty(s = receive(NULL)); n_told++) {
                        assert_true(n_told < ELEMENTSOF(told));
                        (void) snprintf(told[n_told], sizeof(told[n_told]), "%s", s);
                }
        } while (!fds[1].revents);

        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
}

/* In a child: arranges the fds, collects, and exits with the result of `check`. */
static void collect_in_child(const Handed *handed, size_t n, int (*check)(StoredFds *)) {
        pid_t pid = fork();
        assert_return_code(pid, errno);
        if (pid == 0) {
                char names[4096] = "", number[16];
                int high[64];

                for (size_t i = 0; i < n; i++)
                        high[i] = fcntl(handed[i].fd, F_DUPFD_CLOEXEC, 300);
                for (size_t i = 0; i < n; i++) {
                        (void) dup2(high[i], 3 + (int) i);
                        (void) close(high[i]);
                        size_t used = strlen(names);
                        (void) snprintf(names + used, sizeof(names) - used, "%s%s", i > 0 ? ":" : "", handed[i].name);
                }
                (void) snprintf(number, sizeof(number), "%i", getpid());
                (void) setenv("LISTEN_PID", number, 1);
                (void) snprintf(number, sizeof(number), "%zu", n);
                (void) setenv("LISTEN_FDS", number, 1);
                (void) setenv("LISTEN_FDNAMES", names, 1);

                StoredFds stored = STORED_FDS_NULL;
                int r = fdstore_collect(&stored);
                r = r < 0 ? 100 : check(&stored);
                stored_fds_done(&stored);
                /* Unwanted fds are closed, and the wanted ones have been freed by now. */
                for (int fd = 3; fd < 3 + (int) n; fd++)
                        if (fcntl(fd, F_GETFD) >= 0)
                                r = r ?: 101;
                _exit(r);
        }
        await_child(pid);
}

static int check_two_whole(StoredFds *s) {
        if (s->n_clients != 2 || s->clients[0].id != 3 || s->clients[1].id != 20 || s->n_discarded != 0)
                return 1;
        for (size_t i = 0; i < 2; i++)
                for (FdRole r = 0; r < _FD_ROLE_MAX; r++)
                        if (s->clients[i].fds[r] < 0)
                                return 2;
        if (s->state < 0)
                return 3;
        return getenv("LISTEN_FDS") ? 4 : 0; /* must not be passed on */
}

static void test_collect(void **state) {
        StoredClient a = make_client(20), b = make_client(3);
        _cleanup_close_ int st = memfd_create("state", MFD_CLOEXEC);
        const Handed handed[] = {
                        {"c20-meta", a.fds[FD_META]},
                        {"c3-pidfd", b.fds[FD_PIDFD]},
                        {"c20-page", a.fds[FD_PAGE]},
                        {"c3-page", b.fds[FD_PAGE]},
                        {"manager-state", st},
                        {"c3-lifeline", b.fds[FD_LIFELINE]},
                        {"c20-wake", a.fds[FD_WAKE]},
                        {"c20-lifeline", a.fds[FD_LIFELINE]},
                        {"c3-meta", b.fds[FD_META]},
                        {"c3-wake", b.fds[FD_WAKE]},
                        {"c20-pidfd", a.fds[FD_PIDFD]},
        };

        collect_in_child(handed, ELEMENTSOF(handed), check_two_whole);
        assert_int_equal(n_told, 0); /* nothing was removed */
        close_client(&a);
        close_client(&b);
}

static int check_one_of_three(StoredFds *s) {
        if (s->n_clients != 1 || s->clients[0].id != 2)
                return 1;
        if (s->n_discarded != 11 || s->state >= 0)
                return 2;
        return s->next_id == 4 ? 0 : 3; /* beyond client 3, too, although that was lost */
}

/* Client 1 lacks its wake, client 2 is whole (and has one fd twice), client 3's page is an eventfd. Further names are
 * unknown. */
static void test_collect_incomplete(void **state) {
        StoredClient a = make_client(1), b = make_client(2), c = make_client(3);
        const Handed handed[] = {
                        {"c1-page", a.fds[FD_PAGE]},
                        {"c1-lifeline", a.fds[FD_LIFELINE]},
                        {"c1-pidfd", a.fds[FD_PIDFD]},
                        {"c1-meta", a.fds[FD_META]},
                        {"c2-page", b.fds[FD_PAGE]},
                        {"c2-lifeline", b.fds[FD_LIFELINE]},
                        {"c2-wake", b.fds[FD_WAKE]},
                        {"c2-pidfd", b.fds[FD_PIDFD]},
                        {"c2-meta", b.fds[FD_META]},
                        {"c2-meta", b.fds[FD_META]},
                        {"c3-page", c.fds[FD_WAKE]},
                        {"c3-lifeline", c.fds[FD_LIFELINE]},
                        {"c3-wake", c.fds[FD_WAKE]},
                        {"c3-meta", c.fds[FD_META]},
                        {"stored", c.fds[FD_META]},
                        {"c0-page", c.fds[FD_PAGE]},
        };

        collect_in_child(handed, ELEMENTSOF(handed), check_one_of_three);

        unsigned removed[4] = {0}, others = 0;
        for (size_t i = 0; i < n_told; i++) {
                const char *name = startswith(told[i], "FDSTOREREMOVE=1\nFDNAME=");
                assert_non_null(name);
                if (name[0] == 'c' && name[1] >= '1' && name[1] <= '3' && name[2] == '-')
                        removed[name[1] - '0']++;
                else
                        others++;
        }
        assert_int_equal(removed[1], _FD_ROLE_MAX);
        assert_int_equal(removed[2], 0);
        assert_int_equal(removed[3], _FD_ROLE_MAX);
        assert_int_equal(others, 2);
        close_client(&a);
        close_client(&b);
        close_client(&c);
}

static int check_empty(StoredFds *s) {
        return s->n_clients != 0 || s->state >= 0;
}

static void test_collect_nothing(void **state) {
        collect_in_child(NULL, 0, check_empty);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_push_and_remove),
                        cmocka_unit_test(test_push_fails_whole),
                        cmocka_unit_test(test_without_manager),
                        cmocka_unit_test(test_state),
                        cmocka_unit_test(test_collect),
                        cmocka_unit_test(test_collect_incomplete),
                        cmocka_unit_test(test_collect_nothing),
        };
        return cmocka_run_group_tests(tests, setup_group, teardown_group);
}
