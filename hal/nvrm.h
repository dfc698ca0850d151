/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The backend for NVIDIA's kernel driver, from inside the process that owns the channels
 *
 * A queue is a channel group with all its channels, or a channel without a group. A hold disables every channel of the
 * group in one call, which returns when none of them runs. Running kernels are stopped in the middle, and continue
 * there after the release.
 *
 * The driver counts: a channel that was disabled twice has to be enabled twice. And a call for a list with an unknown
 * channel fails after the channels before it were stopped, but does not count that, so that enabling them does nothing:
 * they run again only when they are disabled and then enabled (seen on an H100). So each channel has one boolean,
 * `stopped`, and a call names only the channels that have to change. After a failed call each of its channels is
 * enabled by itself, which does nothing to one that counts as enabled, then disabled, and enabled again if its boolean
 * says so. If that fails, too, the channel is `unsure`, and every later call begins with it.
 *
 * A channel that the driver does not know, or whose GPU is lost, is lost: it cannot run, and its error must not fail
 * the other channels of the list. Its `stopped` keeps its value, because the channel may exist under another handle.
 * But when the driver does not know the file or the subdevice that a call goes through, the state of the channels is
 * unknown: the call returns -ESTALE, and the channels are `unsure`.
 */

#include "hal/hal.h"

typedef struct NvrmHalDevice {
        PreemptLevel level;
        bool degraded; /* a call has failed for good: level GATE; releases are still tried */
        int error;     /* the error that degraded it */
} NvrmHalDevice;

typedef struct NvrmChannel {
        uint32_t client, object;
        bool stopped;
        bool unsure;
        bool lost;
        bool leaving; /* its owner is about to free it: no call names it */
        struct NvrmChannel *next;
} NvrmChannel;

typedef struct NvrmHalQueue {
        HalQueue hal;
        NvrmHalDevice *device;

        /* As the libc function. Any thread may call. `fd` is the file that `client` was made on. */
        int (*ioctl)(int fd, unsigned long request, ...);
        int fd;
        uint32_t client, subdevice; /* the objects that calls go to */
        NvrmChannel *channels;
} NvrmHalQueue;

extern const HalOps hal_nvrm_ops;

/* Makes *q a running queue without channels. */
void nvrm_hal_init(NvrmHalQueue *q, NvrmHalDevice *device);

/* Sets a channel to the state of its queue: call it after a channel was added to the list, or after `leaving` was
 * cleared. Returns 0 or a negative errno. */
int nvrm_hal_follow(NvrmHalQueue *q, NvrmChannel *c);

/* Release all channels, or one, by a call for each, so that an error of one channel does not stop the others. Return 0
 * or a negative errno; `stopped` or `unsure` stays set for the channels that may still be stopped. */
int nvrm_hal_let_go(NvrmHalQueue *q);
int nvrm_hal_let_go_one(const NvrmHalQueue *q, NvrmChannel *c);

/* Calls a control of the driver. Returns 0 or a negative errno. */
int nvrm_control(int (*ioctl)(int fd, unsigned long request, ...), int fd, uint32_t client, uint32_t object,
                uint32_t command, void *parameters, uint32_t size);

/* How well xsched knows a version of the driver, given as text ("580.159.04"). */
typedef enum NvrmKnown {
        NVRM_UNKNOWN,
        NVRM_READ, /* its headers were compared with nvrm-abi.h */
        NVRM_SEEN, /* xsched has run on it */
} NvrmKnown;

NvrmKnown nvrm_version_known(const char *version);
