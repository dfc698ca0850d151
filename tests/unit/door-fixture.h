/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A door in the test's own folder, and the guests that connect to it
 */

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/macro.h"
#include "service/base/door.h"
#include "tests/lib/unit.h"

static char directory[] = "/tmp/xsched-test-door-XXXXXX", path[64];

static inline int connect_to_door(void) {
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        (void) snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
        assert_int_equal(connect(fd, (struct sockaddr *) &a, sizeof(a)), 0);
        return fd;
}

static inline Door *open_door(unsigned guests_max) {
        Door *d;
        int fd;

        assert_int_equal(door_listen(path, &fd), 0);
        assert_int_equal(door_new(fd, guests_max, NULL, NULL, &d), 0);
        return d;
}

static inline void wait_for(int fd, short events) {
        struct pollfd p = {.fd = fd, .events = events};

        assert_int_equal(poll(&p, 1, -1), 1);
}

static inline DoorGuest take(Door *d) {
        DoorGuest g = DOOR_GUEST_NULL;

        wait_for(door_fd(d), POLLIN);
        assert_int_equal(door_take(d, &g), 1);
        return g;
}

static inline bool is_hung_up(int fd) {
        char byte;

        wait_for(fd, POLLIN | POLLRDHUP);
        return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0;
}

static inline int close_door(Door *d, int fd) {
        (void) door_free(d);
        assert_true(is_hung_up(fd));
        safe_close(fd);
        return unlink(path);
}

static inline void say(int fd, const void *data, size_t size) {
        assert_int_equal(send(fd, data, size, MSG_NOSIGNAL), size);
}

static inline void hear(int fd, const void *data, size_t size) {
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

static inline int make_directory(void **state) {
        (void) snprintf(path, sizeof(path), "%s/socket", mkdtemp(directory) ?: "");
        return chmod(directory, 0711);
}

static inline int remove_directory(void **state) {
        return rmdir(directory);
}
