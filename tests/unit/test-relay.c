/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Relays: messages between a guest and the service
 */

#include <dirent.h>
#include <sys/syscall.h>

#include "service/base/short-slice.h"
#include "tests/unit/door-fixture.h"

static bool is_silent(int fd) {
        struct pollfd p = {.fd = fd, .events = POLLIN};

        return poll(&p, 1, 20) == 0;
}

#define EMPTY "l\1\0\1\0\0\0\0\1\0\0\0\0\0\0\0"
#define FOUR  "l\1\0\1\4\0\0\0\1\0\0\0\0\0\0\0abcd"

static void test_whole_messages(void **state) {
        static const char begin[] = "\0AUTH\r\nBEGIN\r\n", empty[] = EMPTY, four[] = FOUR;
        Door *d = open_door(64);

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

/* A guest sends all lines at once, without waiting for answers. */
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

/* A descriptor from the service arrives with its own message, also behind another message. */
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

/* The kernel's struct sched_attr. */
typedef struct Attributes {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
        uint32_t util_min, util_max;
} Attributes;

/* The threads that let guests in and carry messages do not wait for the end of their waker's slice. */
static void test_slices(void **state) {
        Attributes mine = {0}, a = {0};
        Door *d = open_door(64);
        unsigned n = 0;

        int fd = connect_to_door();
        DoorGuest g = take(d);
        say(g.fd, "OK\r\n", 4);
        hear(fd, "OK\r\n", 4);
        assert_true(syscall(SYS_sched_getattr, 0, &mine, (unsigned) sizeof(mine), 0U) >= 0);
        DIR *tasks = opendir("/proc/self/task");
        assert_non_null(tasks);
        for (const struct dirent *e; (e = readdir(tasks));) {
                char name[64], comm[32] = {0};
                (void) snprintf(name, sizeof(name), "/proc/self/task/%.20s/comm", e->d_name);
                FILE *f = fopen(name, "re");
                if (!f)
                        continue;
                assert_non_null(fgets(comm, sizeof(comm), f));
                (void) fclose(f);
                if (strcmp(comm, "door\n") != 0 && strcmp(comm, "relay\n") != 0)
                        continue;
                assert_true(syscall(SYS_sched_getattr, atoi(e->d_name), &a, (unsigned) sizeof(a), 0U) >= 0);
                if (mine.runtime > 0) /* since Linux 6.12 */
                        n += a.runtime == SHORT_SLICE_NS;
        }
        (void) closedir(tasks);
        assert_true(mine.runtime == 0 || n >= 2);
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
        door_guest_done(&g); /* the last messages still arrive */
        hear(fd, "REJECTED\r\n", 10);
        assert_true(is_hung_up(fd));
        assert_int_equal(close_door(d, fd), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_whole_messages),
                        cmocka_unit_test(test_all_at_once),
                        cmocka_unit_test(test_descriptors_come_with_their_message),
                        cmocka_unit_test(test_slices),
                        cmocka_unit_test(test_ends),
        };

        return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
