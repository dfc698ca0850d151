/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The door: which guests it lets in, with pidfds from the kernel and without
 */

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "common/macro.h"
#include "common/process.h"
#include "service/base/aside.h"
#include "service/base/relay.h"
#include "service/base/waker.h"
#include "tests/unit/door-fixture.h"

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

/* A descriptor like a file of a dead server: close() of its end waits, and no signal interrupts it. */
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

/* A kernel where a thread cannot have its own table of descriptors. */
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
        /* A pidfd from the kernel needs no comparison of times. */
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

/* No process has the pid: so none has the connection. */
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
        /* The guest after it is let in, so the door has examined this one. */
        int fd = connect_to_door();
        DoorGuest g = take(d);
        if (g.pid == pid) { /* the kernel keeps pidfds of ended peers */
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
        /* A place gets free when the service is done with a guest, and the guest's connection is closed. */
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

/* A guest takes a place of the user that its uid belongs to. */
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
        assert_int_equal(guests[MINE].uid, getuid()); /* with its own uid */
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

        /* A guest that comes and goes gets a place each time, but not without limit. */
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
static unsigned n_fds(void) {
        DIR *d = opendir("/proc/self/fd");
        unsigned n = 0;

        assert_non_null(d);
        while (readdir(d))
                n++;
        (void) closedir(d);
        return n;
}

/* Sends a descriptor along, which the door does not accept. */
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
        (void) sendmsg(fd, &m, MSG_NOSIGNAL); /* fails if the door has closed the connection already */
}

static void connect_with(int along) {
        int fd = connect_to_door();

        send_with(fd, along);
        assert_true(is_hung_up(fd));
        safe_close(fd);
}

/* A guest that comes again and again with a descriptor that cannot be closed does not keep other guests out. */
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
        assert_true(n_fds() < n + FEW); /* they are not in our process's table */

        atomic_store(&user, 1001);
        int fd = connect_to_door();
        g = take(d);
        say(g.fd, "REJECTED\r\n", 10);
        hear(fd, "REJECTED\r\n", 10);
        assert_int_equal(n_closed(), closed);

        /* Once close() returns, all are closed: the descriptors' other ends hang up. */
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

/* Whether the file system of the socket's folder has access control lists: asks for a list that is not there. */
static bool has_lists(void) {
        return getxattr(directory, "system.posix_acl_access", NULL, 0) >= 0 || errno == ENODATA;
}

/* Connects as another user until the kernel refuses the connection. */
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

/* The descriptors can neither be closed nor put aside. */
static void test_who_cannot_be_put_aside_is_banned(void **state) {
        int along[2], status;

        if (getuid() != 0 || !has_lists())
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
        do { /* the banned user's first connections were let in */
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
        safe_close(fd); /* as if the service was killed */
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
        };

        return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
