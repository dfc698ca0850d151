/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The door: who has come in, with pidfds from the kernel and without, and what goes to and fro
 */

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/macro.h"
#include "common/process.h"
#include "service/base/aside.h"
#include "service/base/door.h"
#include "service/base/relay.h"
#include "service/base/waker.h"
#include "tests/lib/unit.h"

#ifndef SO_PEERPIDFD
#        define SO_PEERPIDFD 77
#endif

static atomic_bool is_old_kernel;

/* A kernel before 6.5 has no pidfds of peers. */
int __real_getsockopt(int fd, int level, int option, void *value, socklen_t *size);
int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *size);
int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *size) {
        if (option == SO_PEERPIDFD && is_old_kernel) {
                errno = ENOPROTOOPT;
                return -1;
        }
        return __real_getsockopt(fd, level, option, value, size);
}

/* As of a file of a dead server, which no signal gets the kernel away from: who closes an end waits. */
static struct {
        pthread_mutex_t lock;
        pthread_cond_t end;
        bool is_hanging;
        unsigned n;
} closing = {.lock = PTHREAD_MUTEX_INITIALIZER, .end = PTHREAD_COND_INITIALIZER};

void __real_waker_close(const Waker *w, int fd);
void __wrap_waker_close(const Waker *w, int fd);
void __wrap_waker_close(const Waker *w, int fd) {
        (void) pthread_mutex_lock(&closing.lock);
        while (closing.is_hanging)
                (void) pthread_cond_wait(&closing.end, &closing.lock);
        closing.n++;
        (void) pthread_mutex_unlock(&closing.lock);
        __real_waker_close(w, fd);
}

static atomic_bool has_no_aside;

/* A kernel without tables of threads' own. */
int __real_aside_put(Aside *a, int fd, void *userdata);
int __wrap_aside_put(Aside *a, int fd, void *userdata);
int __wrap_aside_put(Aside *a, int fd, void *userdata) {
        return has_no_aside ? -ENOSYS : __real_aside_put(a, fd, userdata);
}

static void hang(bool yes) {
        (void) pthread_mutex_lock(&closing.lock);
        closing.is_hanging = yes;
        (void) pthread_cond_broadcast(&closing.end);
        (void) pthread_mutex_unlock(&closing.lock);
}

static unsigned n_closed(void) {
        (void) pthread_mutex_lock(&closing.lock);
        unsigned n = closing.n;
        (void) pthread_mutex_unlock(&closing.lock);
        return n;
}

static char directory[] = "/tmp/xsched-test-door-XXXXXX", path[64];

static int connect_to_door(void) {
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        (void) snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
        assert_int_equal(connect(fd, (struct sockaddr *) &a, sizeof(a)), 0);
        return fd;
}

static Door *open_door(unsigned guests_max) {
        Door *d;
        int fd;

        assert_int_equal(door_listen(path, &fd), 0);
        assert_int_equal(door_new(fd, guests_max, NULL, NULL, &d), 0);
        return d;
}

static void wait_for(int fd, short events) {
        struct pollfd p = {.fd = fd, .events = events};

        assert_int_equal(poll(&p, 1, -1), 1);
}

static DoorGuest take(Door *d) {
        DoorGuest g = DOOR_GUEST_NULL;

        wait_for(door_fd(d), POLLIN);
        assert_int_equal(door_take(d, &g), 1);
        return g;
}

static bool is_hung_up(int fd) {
        char byte;

        wait_for(fd, POLLIN | POLLRDHUP);
        return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0;
}

static int close_door(Door *d, int fd) {
        (void) door_free(d);
        assert_true(is_hung_up(fd));
        safe_close(fd);
        return unlink(path);
}

/* --- who it is --- */

static void check_guest(bool old) {
        Door *d = open_door(64);

        is_old_kernel = old;
        int fd = connect_to_door();
        DoorGuest g = take(d);
        assert_int_equal(g.pid, getpid());
        assert_int_equal(g.uid, getuid());
        assert_int_equal(pidfd_is_alive(g.pidfd), 1);
        assert_int_equal(fcntl(g.pidfd, F_GETFD), FD_CLOEXEC);
        /* The kernel's own word needs no time to be compared with. */
        if (old)
                assert_true(g.made_by > 0);
        door_guest_done(&g);
        assert_int_equal(close_door(d, fd), 0);
}

static void test_guest(void **state) {
        check_guest(false);
}

static void test_guest_of_an_old_kernel(void **state) {
        check_guest(true);
}

/* The number is nobody's: the connection is no one's either. */
static void check_gone(bool old) {
        int keep[2], listener;
        Door *d;

        is_old_kernel = old;
        assert_int_equal(door_listen(path, &listener), 0);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, keep), 0);
        pid_t pid = fork();
        if (pid == 0) {
                int fd = connect_to_door();
                struct iovec part = {.iov_base = (char[]){0}, .iov_len = 1};
                union {
                        struct cmsghdr header;
                        char space[CMSG_SPACE(sizeof(int))];
                } control = {.header = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
                struct msghdr m = {
                                .msg_iov = &part,
                                .msg_iovlen = 1,
                                .msg_control = &control,
                                .msg_controllen = sizeof(control),
                };
                memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
                _exit(sendmsg(keep[1], &m, 0) == 1 ? 0 : 1);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        assert_int_equal(door_new(listener, 64, NULL, NULL, &d), 0);
        /* Who comes behind it is let in, so it has been looked at. */
        int fd = connect_to_door();
        DoorGuest g = take(d);
        if (g.pid == pid) { /* the kernel keeps pidfds of those who are gone */
                assert_false(old);
                assert_int_not_equal(pidfd_is_alive(g.pidfd), 1);
                door_guest_done(&g);
                g = take(d);
        }
        assert_int_equal(g.pid, getpid());
        door_guest_done(&g);
        safe_close(keep[0]);
        safe_close(keep[1]);
        assert_int_equal(close_door(d, fd), 0);
}

static void test_maker_is_gone(void **state) {
        check_gone(false);
}

static void test_maker_is_gone_in_an_old_kernel(void **state) {
        check_gone(true);
}

/* --- how many --- */

static void test_places(void **state) {
        enum { ALL = 32, MINE = ALL / 8 };
        Door *d = open_door(ALL);
        DoorGuest guests[MINE];
        int fds[MINE];

        for (unsigned i = 0; i < MINE; i++) {
                fds[i] = connect_to_door();
                guests[i] = take(d);
        }
        int more = connect_to_door();
        assert_true(is_hung_up(more));
        safe_close(more);
        /* A place is free when the service is done with a guest, and the guest is told. */
        door_guest_done(guests);
        assert_true(is_hung_up(fds[0]));
        safe_close(fds[0]);
        do {
                struct pollfd p = {.fd = door_fd(d), .events = POLLIN};
                fds[0] = connect_to_door();
                if (poll(&p, 1, 100) == 1)
                        break;
                safe_close(fds[0]);
        } while (true);
        guests[0] = take(d);
        for (unsigned i = 0; i < MINE; i++)
                door_guest_done(guests + i);
        for (unsigned i = 1; i < MINE; i++)
                safe_close(fds[i]);
        assert_int_equal(close_door(d, fds[0]), 0);
}

static uid_t count_as(uid_t uid, void *userdata) {
        const atomic_uint *user = userdata;

        return uid == getuid() ? atomic_load(user) : uid;
}

/* A user has as many uids as somebody gave him. */
static void test_places_are_by_user(void **state) {
        enum { ALL = 16, MINE = ALL / 8 };
        atomic_uint user = 1000;
        DoorGuest guests[MINE + 1];
        int fds[MINE + 1], listener;
        Door *d;

        assert_int_equal(door_listen(path, &listener), 0);
        assert_int_equal(door_new(listener, ALL, count_as, &user, &d), 0);
        for (unsigned i = 0; i < MINE; i++) {
                fds[i] = connect_to_door();
                guests[i] = take(d);
        }
        int more = connect_to_door();
        assert_true(is_hung_up(more));
        safe_close(more);
        atomic_store(&user, 1001);
        fds[MINE] = connect_to_door();
        guests[MINE] = take(d);
        assert_int_equal(guests[MINE].uid, getuid()); /* and is who it is */
        for (unsigned i = 0; i < MINE + 1; i++)
                door_guest_done(guests + i);
        for (unsigned i = 1; i < MINE + 1; i++)
                safe_close(fds[i]);
        assert_int_equal(close_door(d, fds[0]), 0);
}

static void test_rate(void **state) {
        Door *d = open_door(1 << 20);
        unsigned n = 0;
        bool refused = false;

        /* One that comes and goes has a place each time, but not as often as it likes. */
        while (!refused && n < 16 * DOOR_ROOM) {
                int fd = connect_to_door();
                struct pollfd p[] = {{.fd = fd, .events = POLLIN}, {.fd = door_fd(d), .events = POLLIN}};

                assert_true(poll(p, 2, -1) > 0);
                if (p[1].revents) {
                        DoorGuest g = take(d);
                        door_guest_done(&g);
                        n++;
                } else
                        refused = true;
                safe_close(fd);
        }
        assert_true(refused);
        assert_true(n >= DOOR_ROOM);
        int last = connect_to_door();
        (void) door_free(d);
        assert_true(is_hung_up(last));
        safe_close(last);
        assert_int_equal(unlink(path), 0);
}

/* --- to and fro --- */

static void say(int fd, const void *data, size_t size) {
        assert_int_equal(send(fd, data, size, MSG_NOSIGNAL), size);
}

static void hear(int fd, const void *data, size_t size) {
        uint8_t buf[256];
        size_t n = 0;

        assert_true(size <= sizeof(buf));
        while (n < size) {
                wait_for(fd, POLLIN);
                ssize_t got = recv(fd, buf + n, size - n, 0);
                assert_true(got > 0);
                n += (size_t) got;
        }
        assert_memory_equal(buf, data, size);
}

static bool is_silent(int fd) {
        struct pollfd p = {.fd = fd, .events = POLLIN};

        return poll(&p, 1, 20) == 0;
}

#define EMPTY "l\1\0\1\0\0\0\0\1\0\0\0\0\0\0\0"
#define FOUR  "l\1\0\1\4\0\0\0\1\0\0\0\0\0\0\0abcd"

static void test_whole_messages(void **state) {
        static const char begin[] = "\0AUTH\r\nBEGIN\r\n", empty[] = EMPTY, four[] = FOUR;
        Door *d = open_door(64);

        is_old_kernel = false;
        int fd = connect_to_door();
        DoorGuest g = take(d);
        say(fd, "\0AUTH", 5);
        hear(g.fd, "\0", 1);
        assert_true(is_silent(g.fd)); /* a line that has no end */
        say(fd, begin + 5, sizeof(begin) - 1 - 5);
        hear(g.fd, begin + 1, sizeof(begin) - 2);

        say(fd, empty, 7);
        assert_true(is_silent(g.fd));
        say(fd, empty + 7, sizeof(empty) - 1 - 7);
        hear(g.fd, empty, sizeof(empty) - 1);
        say(fd, four, sizeof(four) - 2);
        assert_true(is_silent(g.fd));
        say(fd, four + sizeof(four) - 2, 1);
        hear(g.fd, four, sizeof(four) - 1);

        say(g.fd, "OK 1234\r\n", 9);
        hear(fd, "OK 1234\r\n", 9);
        say(g.fd, "OK\r\nAGREE\r\n" FOUR, 11 + sizeof(four) - 1);
        hear(fd, "OK\r\nAGREE\r\n" FOUR, 11 + sizeof(four) - 1);
        say(g.fd, four, sizeof(four) - 1);
        hear(fd, four, sizeof(four) - 1);
        door_guest_done(&g);
        assert_int_equal(close_door(d, fd), 0);
}

/* As programs do, who do not wait for an answer in between. */
static void test_all_at_once(void **state) {
        static const char all[] = "\0AUTH\r\nBEGIN\r\n" FOUR FOUR "l\1";
        Door *d = open_door(64);

        for (size_t part = 1; part < sizeof(all) - 1; part++) {
                int fd = connect_to_door();
                DoorGuest g = take(d);
                say(fd, all, part);
                say(fd, all + part, sizeof(all) - 1 - part);
                hear(g.fd, all, sizeof(all) - 1 - 2);
                safe_close(fd);
                assert_true(is_hung_up(g.fd));
                door_guest_done(&g);
        }
        int fd = connect_to_door();
        DoorGuest g = take(d);
        door_guest_done(&g);
        assert_int_equal(close_door(d, fd), 0);
}

/* What the service sends along comes with its own message, also behind another one. */
static void test_descriptors_come_with_their_message(void **state) {
        static const char four[] = FOUR;
        int sent[2];
        Door *d = open_door(64);

        int fd = connect_to_door();
        DoorGuest g = take(d);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sent), 0);
        say(g.fd, four, sizeof(four) - 1);
        struct iovec part = {.iov_base = (char *) four, .iov_len = sizeof(four) - 1};
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int))];
        } control = {.header = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
        struct msghdr m = {
                        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
        memcpy(CMSG_DATA(&control.header), sent, sizeof(int));
        assert_int_equal(sendmsg(g.fd, &m, 0), part.iov_len);
        for (unsigned i = 0; i < 2; i++) {
                char buf[sizeof(four) - 1];
                struct iovec room = {.iov_base = buf, .iov_len = sizeof(buf)};
                struct msghdr h = {
                                .msg_iov = &room,
                                .msg_iovlen = 1,
                                .msg_control = &control,
                                .msg_controllen = sizeof(control),
                };
                wait_for(fd, POLLIN);
                assert_int_equal(recvmsg(fd, &h, MSG_WAITALL), sizeof(buf));
                assert_int_equal(h.msg_controllen > 0, i == 1);
        }
        int got;
        memcpy(&got, CMSG_DATA(&control.header), sizeof(got));
        say(got, "x", 1);
        hear(sent[1], "x", 1);
        safe_close(got);
        safe_close(sent[0]);
        safe_close(sent[1]);
        door_guest_done(&g);
        assert_int_equal(close_door(d, fd), 0);
}

static void test_ends(void **state) {
        static const char *const bad[] = {"AUTH\r\n", "\0\0"};
        Door *d = open_door(64);

        for (unsigned i = 0; i < ELEMENTSOF(bad); i++) {
                int fd = connect_to_door();
                DoorGuest g = take(d);
                char data[4096] = {0};

                memset(data + 1, 'x', sizeof(data) - 1);
                if (i == 0)
                        data[0] = 'A';
                say(fd, data, sizeof(data));
                assert_true(is_hung_up(fd));
                safe_close(fd);
                door_guest_done(&g);
        }
        int fd = connect_to_door();
        DoorGuest g = take(d);
        safe_close(fd);
        assert_true(is_hung_up(g.fd));
        door_guest_done(&g);

        fd = connect_to_door();
        g = take(d);
        say(g.fd, "REJECTED\r\n", 10);
        door_guest_done(&g); /* and what was said last is heard */
        hear(fd, "REJECTED\r\n", 10);
        assert_true(is_hung_up(fd));
        assert_int_equal(close_door(d, fd), 0);
}

static unsigned n_fds(void) {
        DIR *d = opendir("/proc/self/fd");
        unsigned n = 0;

        assert_non_null(d);
        while (readdir(d))
                n++;
        (void) closedir(d);
        return n;
}

/* With a descriptor along, which nobody here takes. */
static void send_with(int fd, int along) {
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int))];
        } control = {.header = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
        char byte = 0;
        struct iovec part = {.iov_base = &byte, .iov_len = 1};
        const struct msghdr m = {
                        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};

        memcpy(CMSG_DATA(&control.header), &along, sizeof(along));
        (void) sendmsg(fd, &m, MSG_NOSIGNAL); /* or it is hung up on already */
}

static void connect_with(int along) {
        int fd = connect_to_door();

        send_with(fd, along);
        assert_true(is_hung_up(fd));
        safe_close(fd);
}

/* Who comes with what can never be closed, again and again, keeps nobody else at the door. */
static void test_who_cannot_be_closed_is_nobody_elses(void **state) {
        enum { ALL = 16, MINE = ALL / 8, MORE = 500, FEW = 100 };
        atomic_uint user = 1000;
        DoorGuest guests[MINE], g;
        int fds[MINE], listener, along[2];
        Door *d;

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, along), 0);
        assert_int_equal(door_listen(path, &listener), 0);
        assert_int_equal(door_new(listener, ALL, count_as, &user, &d), 0);
        for (unsigned i = 0; i < MINE; i++) {
                fds[i] = connect_to_door();
                guests[i] = take(d);
        }
        hang(true);
        unsigned n = n_fds(), closed = n_closed();
        for (unsigned i = 0; i < MORE; i++)
                connect_with(along[0]);
        assert_int_equal(n_closed(), closed);
        assert_true(n_fds() < n + FEW); /* they are not among ours */

        atomic_store(&user, 1001);
        int fd = connect_to_door();
        g = take(d);
        say(g.fd, "REJECTED\r\n", 10);
        hear(fd, "REJECTED\r\n", 10);
        assert_int_equal(n_closed(), closed);

        /* Once they can be closed, they all are: the other end of what came along hears of it. */
        hang(false);
        safe_close(along[0]);
        assert_true(is_hung_up(along[1]));
        safe_close(along[1]);
        for (unsigned i = 0; i < MINE; i++) {
                door_guest_done(guests + i);
                safe_close(fds[i]);
        }
        door_guest_done(&g);
        assert_int_equal(close_door(d, fd), 0);
}

/* Of no user of ours, until the kernel refuses him. */
static int connect_until_banned(int along) {
        struct sockaddr_un a = {.sun_family = AF_UNIX};

        (void) snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
        if (setgid(65534) < 0 || setuid(65534) < 0)
                return 1;
        for (;;) {
                int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
                if (connect(fd, (struct sockaddr *) &a, sizeof(a)) < 0)
                        return errno == EACCES ? 0 : 2;
                send_with(fd, along);
                (void) is_hung_up(fd);
                safe_close(fd);
        }
}

/* Where they cannot be put aside either. */
static void test_who_cannot_be_put_aside_is_banned(void **state) {
        int along[2], status;

        if (getuid() != 0)
                skip();
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, along), 0);
        has_no_aside = true;
        hang(true);
        Door *d = open_door(16);
        pid_t pid = fork();
        if (pid == 0)
                _exit(connect_until_banned(along[0]));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);

        int fd = connect_to_door();
        DoorGuest g;
        do { /* his first ones were let in */
                g = take(d);
                if (g.pid != getpid())
                        door_guest_done(&g);
        } while (g.pid != getpid());
        say(g.fd, "REJECTED\r\n", 10);
        hear(fd, "REJECTED\r\n", 10);
        hang(false);
        has_no_aside = false;
        safe_close(along[0]);
        assert_true(is_hung_up(along[1])); /* all are closed */
        safe_close(along[1]);
        door_guest_done(&g);
        assert_int_equal(close_door(d, fd), 0);
}

static void test_listen(void **state) {
        struct stat st;
        int fd, other;

        assert_int_equal(door_listen(path, &fd), 0);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode, S_IFSOCK | 0666);
        assert_int_equal(door_listen(path, &other), -EADDRINUSE);
        safe_close(fd); /* as if killed */
        assert_int_equal(door_listen(path, &fd), 0);
        safe_close(fd);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(door_listen("/no/such/directory/socket", &fd), -ENOENT);
        char longest[200];
        memset(longest, 'x', sizeof(longest) - 1);
        longest[0] = '/';
        longest[sizeof(longest) - 1] = '\0';
        assert_int_equal(door_listen(longest, &fd), -ENAMETOOLONG);
}

static int make_directory(void **state) {
        (void) snprintf(path, sizeof(path), "%s/socket", mkdtemp(directory) ?: "");
        return chmod(directory, 0711);
}

static int remove_directory(void **state) {
        return rmdir(directory);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_listen),
                        cmocka_unit_test(test_guest),
                        cmocka_unit_test(test_guest_of_an_old_kernel),
                        cmocka_unit_test(test_maker_is_gone),
                        cmocka_unit_test(test_maker_is_gone_in_an_old_kernel),
                        cmocka_unit_test(test_places),
                        cmocka_unit_test(test_places_are_by_user),
                        cmocka_unit_test(test_who_cannot_be_closed_is_nobody_elses),
                        cmocka_unit_test(test_who_cannot_be_put_aside_is_banned),
                        cmocka_unit_test(test_rate),
                        cmocka_unit_test(test_whole_messages),
                        cmocka_unit_test(test_all_at_once),
                        cmocka_unit_test(test_descriptors_come_with_their_message),
                        cmocka_unit_test(test_ends),
        };

        return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
