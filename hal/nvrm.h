/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The backend for NVIDIA's kernel driver, from inside the process that owns the channels
 *
 * A queue is a channel group with all its channels, or a channel that is in no group. A hold disables every channel of
 * the group in one call, which returns when none of them runs; kernels are stopped in the middle, and go on from there.
 *
 * The driver counts: who was disabled twice has to be enabled twice. And a list that holds one channel that is not
 * there fails when those before it have been done. So each channel has one boolean, `stopped`, and only those are named
 * in a call that are to change. After a call that failed each of its channels is enabled by itself, which does nothing
 * to one that is, and then brought to what its boolean says. When that fails, too, it is `unsure`, and every later call
 * begins with it.
 *
 * A channel of which the driver says that there is none is lost: nothing of it can run, and the others of its list must
 * not suffer for it. So is one whose GPU is. What it says then is what it was, for who knows another name of it. But
 * when it is the file or the subdevice that is not there, by which the driver is asked, nothing is known of the
 * channels: -ESTALE, and those are `unsure`.
 */

#include "hal/hal.h"

typedef struct NvrmHalDevice {
        PreemptLevel level;
        bool degraded; /* a call has failed for good: level GATE; a release is tried whatever the level is */
        int error;     /* what degraded it */
        HalCosts costs;
} NvrmHalDevice;

typedef struct NvrmChannel {
        uint32_t client, object;
        bool stopped;
        bool unsure;
        bool lost;
        bool leaving; /* its owner is about to free it: not to be named in a call */
        struct NvrmChannel *next;
} NvrmChannel;

typedef struct NvrmHalQueue {
        HalQueue hal;
        NvrmHalDevice *device;

        /* As the libc function. Any thread may call; the file is the one on which the client was made. */
        int (*ioctl)(int fd, unsigned long request, ...);
        int fd;
        uint32_t client, subdevice; /* who is asked */
        NvrmChannel *channels;
} NvrmHalQueue;

extern const HalOps hal_nvrm_ops;

/* Running, and without channels. */
void nvrm_hal_init(NvrmHalQueue *q, NvrmHalDevice *device);

/* A channel was added to the list, or has come back from `leaving`: it is brought to where the queue is. */
int nvrm_hal_follow(NvrmHalQueue *q, NvrmChannel *c);

/* Whatever fails, the others run: each channel by itself. Returns 0 or a negative errno, and then those that may be
 * stopped still say so. */
int nvrm_hal_let_go(NvrmHalQueue *q);
int nvrm_hal_let_go_one(const NvrmHalQueue *q, NvrmChannel *c);

/* A control of the driver's. Returns 0 or a negative errno. */
int nvrm_control(int (*ioctl)(int fd, unsigned long request, ...), int fd, uint32_t client, uint32_t object,
                uint32_t command, void *parameters, uint32_t size);

/* How well a version of the driver is known, by its text ("580.159.04"). */
typedef enum NvrmKnown {
        NVRM_UNKNOWN,
        NVRM_READ, /* its headers say what nvrm-abi.h says */
        NVRM_SEEN, /* seen at work */
} NvrmKnown;

NvrmKnown nvrm_version_known(const char *version);
