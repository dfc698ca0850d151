/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The channels of a context: see fake-channels.h
 */

#include "fake-channels.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <time.h>

#include "hal/nvrm-abi.h"

#define COPY_ENGINE 9U

__attribute__((weak)) void fake_rm_run(uint32_t client, uint32_t channel, uint64_t ns);

static int fd = -1;
static uint32_t client;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void call(unsigned long request, void *arg, const uint32_t *status) {
        if (ioctl(fd, request, arg) >= 0 && *status == NVRM_OK)
                return;
        fprintf(stderr, "the driver refused %lx: %x\n", request, *status);
        abort();
}

static uint32_t make(uint32_t parent, uint32_t class, void *parameters) {
        NvrmAlloc a = {.client = client, .parent = parent, .class = class, .parameters = (uintptr_t) parameters};

        call(NVRM_IOC(NVRM_NR_ALLOC, NvrmAlloc), &a, &a.status);
        return a.object;
}

/* In the older form. */
static uint32_t make_short(uint32_t parent, uint32_t class) {
        NvrmAllocShort a = {.client = client, .parent = parent, .class = class};

        call(NVRM_IOC(NVRM_NR_ALLOC, NvrmAllocShort), &a, &a.status);
        return a.object;
}

static void unmake(uint32_t object) {
        NvrmFree a = {.client = client, .object = object};

        call(NVRM_IOC(NVRM_NR_FREE, NvrmFree), &a, &a.status);
}

static void start(void) {
        if (fake_rm_run)
                fd = open("/dev/nvidiactl", O_RDWR | O_CLOEXEC);
        if (fd < 0)
                return;
        client = make(0, NVRM_CLASS_ROOT_CLIENT, NULL);
}

static void group_start(FakeChannels *c, uint32_t engine, unsigned n, uint32_t *ret) {
        NvrmGroupParameters p = {.engine = engine};
        uint32_t group = make(c->device, NVRM_CLASS_CHANNEL_GROUP, &p), channel;
        NvrmControl schedule = {.client = client, .object = group, .command = NVRM_CMD_GROUP_SCHEDULE};

        for (unsigned i = 0; i < n; i++) {
                channel = i % 2 ? make(group, NVRM_CLASS_CHANNEL_HOPPER, NULL)
                                : make_short(group, NVRM_CLASS_CHANNEL_HOPPER);
                if (ret)
                        ret[i] = channel;
        }
        call(NVRM_IOC(NVRM_NR_CONTROL, NvrmControl), &schedule, &schedule.status);
}

void fake_channels_start(FakeChannels *c, int gpu) {
        uint32_t instance = (uint32_t) gpu;

        pthread_once(&once, start);
        if (fd < 0 || c->device != 0)
                return;
        c->device = make(client, NVRM_CLASS_DEVICE, &instance);
        (void) make(c->device, NVRM_CLASS_SUBDEVICE, NULL);
        group_start(c, 1, 4, c->compute);
        for (uint32_t i = 0; i < 3; i++)
                group_start(c, COPY_ENGINE + i, 2, NULL);
}

void fake_channels_end(FakeChannels *c) {
        if (c->device != 0)
                unmake(c->device);
        *c = (FakeChannels){};
}

uint32_t fake_channels_next(FakeChannels *c) {
        return c->device ? c->compute[c->n_streams++ % 4] : 0;
}

static void just_sleep(uint64_t ns) {
        struct timespec ts = {.tv_sec = (time_t) (ns / 1000000000), .tv_nsec = (long) (ns % 1000000000)};

        while (clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, &ts) == EINTR)
                ;
}

void fake_channels_run(uint32_t channel, uint64_t ns) {
        if (channel != 0)
                fake_rm_run(client, channel, ns);
        else if (ns > 0)
                just_sleep(ns);
}
