/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Makes objects of the driver for a test, by ioctl(), as libcuda does
 */

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>

#include "fake-rm.h"
#include "hal/nvrm-abi.h"
#include "tests/lib/unit.h"

#define COMPUTE  3U
#define GPUS_MAX 2U

typedef struct User {
        int fd;
        uint32_t client, device[GPUS_MAX], subdevice[GPUS_MAX];
} User;

static inline uint32_t user_call(int fd, unsigned long request, void *arg, const uint32_t *status) {
        errno = 4711;
        assert_true(ioctl(fd, request, arg) >= 0);
        assert_int_equal(errno, 4711);
        return *status;
}

/* With `object` as its name; 0: any. */
static inline uint32_t user_make_named(
                const User *u, uint32_t parent, uint32_t object, uint32_t class, void *parameters) {
        NvrmAlloc a = {.client = u->client,
                        .parent = parent,
                        .object = object,
                        .class = class,
                        .parameters = (uintptr_t) parameters};

        assert_int_equal(user_call(u->fd, NVRM_IOC(NVRM_NR_ALLOC, NvrmAlloc), &a, &a.status), NVRM_OK);
        return a.object;
}

static inline uint32_t user_make(const User *u, uint32_t parent, uint32_t class, void *parameters) {
        return user_make_named(u, parent, 0, class, parameters);
}

static inline uint32_t user_unmake(const User *u, uint32_t object) {
        NvrmFree a = {.client = u->client, .object = object};

        return user_call(u->fd, NVRM_IOC(NVRM_NR_FREE, NvrmFree), &a, &a.status);
}

static inline void user_schedule(const User *u, uint32_t object, uint32_t command) {
        NvrmControl c = {.client = u->client, .object = object, .command = command};

        assert_int_equal(user_call(u->fd, NVRM_IOC(NVRM_NR_CONTROL, NvrmControl), &c, &c.status), NVRM_OK);
}

static inline uint32_t user_copy(const User *u, uint32_t parent, const User *from, uint32_t object) {
        NvrmDup d = {.client = u->client, .parent = parent, .from_client = from->client, .from_object = object};

        assert_int_equal(user_call(u->fd, NVRM_IOC(NVRM_NR_DUP, NvrmDup), &d, &d.status), NVRM_OK);
        return d.object;
}

static inline uint32_t user_group_of_engine(
                const User *u, unsigned gpu, uint32_t engine, uint32_t *ret_channels, unsigned n) {
        NvrmGroupParameters p = {.engine = engine};
        uint32_t group = user_make(u, u->device[gpu], NVRM_CLASS_CHANNEL_GROUP, &p);

        for (unsigned i = 0; i < n; i++)
                ret_channels[i] = user_make(u, group, NVRM_CLASS_CHANNEL_HOPPER, NULL);
        user_schedule(u, group, NVRM_CMD_GROUP_SCHEDULE);
        return group;
}

static inline uint32_t user_group(const User *u, unsigned gpu, uint32_t *ret_channels, unsigned n) {
        return user_group_of_engine(u, gpu, NVRM_ENGINE_COMPUTE, ret_channels, n);
}

static inline User user_new(void) {
        User u = {.fd = open("/dev/nvidiactl", O_RDWR | O_CLOEXEC)};

        assert_true(u.fd >= 0);
        u.client = user_make(&u, 0, NVRM_CLASS_ROOT_CLIENT, NULL);
        for (uint32_t i = 0; i < GPUS_MAX; i++) {
                u.device[i] = user_make(&u, u.client, NVRM_CLASS_DEVICE, &i);
                u.subdevice[i] = user_make(&u, u.device[i], NVRM_CLASS_SUBDEVICE, NULL);
        }
        return u;
}

static inline void user_end(const User *u) {
        assert_int_equal(user_unmake(u, u->client), NVRM_OK);
        (void) close(u->fd);
}
