/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Privileged holds of NVIDIA's kernel driver: the channels of another process, without its help
 *
 * The driver takes calls about a client only on the file that the client was made on, whoever calls. So each call is
 * made on a copy of the process's own /dev/nvidiactl, taken by pidfd_getfd(2), which needs CAP_SYS_PTRACE. The copy is
 * closed after the call, because a process's memory on the GPU is freed only when the last copy of its file is closed.
 *
 * Channels are found by nvrm-find.h, and held by nvrm.h, all of the process on all GPUs. Channels that are made
 * meanwhile run until the next look finds them.
 *
 * A look asks for thousands of numbers, which takes some milliseconds. So hold() of a process that runs asks only
 * whether the channels that the last look found are still there, each by its class and parent, and stops these;
 * release() likewise. Where the process has closed a file, or any of them has gone, it looks anew at once. hold() of a
 * process that is held looks anew, too: callers do this when nvrm_target_look_at() says so.
 *
 * The driver counts how often a channel was disabled, and remembers it beyond the end of the process that did it; only
 * enabling, or the end of the held process, lets the channel run. Enabling one that is enabled does nothing. So
 * nvrm_target_undo() finds all channels anew and enables each, which is right whatever a dead process of ours has done.
 * Two names of one channel (NV_ESC_RM_DUP_OBJECT) are disabled twice and enabled twice; when a name has gone meanwhile,
 * each channel is enabled once more than we know of.
 *
 * The process itself can enable its channels at any time. A process that shares its file with another one, by fork,
 * shares its clients, and is held with it.
 *
 * Thread safety: an NvrmTarget belongs to one thread at a time.
 */

#include <sys/types.h>

#include "hal/nvrm-find.h"
#include "hal/nvrm.h"
#include "hal/privileged-mode.h"

/* The system calls that a target needs, replaceable by tests. Functions return 0 or positive, or a negative errno;
 * ioctl() is as libc's. */
typedef struct NvrmTargetSys {
        int (*open_process)(pid_t pid, uint64_t *ret_start_time); /* a pidfd */
        /* A copy of the first /dev/nvidiactl among the fds of the process from number *at on; sets *at to its number.
         * -ENODEV: there is none. */
        int (*open_file)(pid_t pid, int pidfd, int *at);
        /* A copy of the fd `at` of the process. -ENODEV: that is no /dev/nvidiactl. */
        int (*open_file_at)(pid_t pid, int pidfd, int at);
        int (*open_own)(void); /* our own /dev/nvidiactl */
        int (*ioctl)(int fd, unsigned long request, ...);
        uint64_t (*now)(void);
} NvrmTargetSys;

/* A file of the process, which may have several. */
typedef struct NvrmTargetFile {
        int at; /* the fd's number in the process */
        int fd; /* our copy, while a call is made */
        NvrmFound found;
} NvrmTargetFile;

typedef struct NvrmTarget {
        const NvrmTargetSys *sys;
        pid_t pid;
        uint64_t start_time;
        TargetState state;
        HalCosts costs;

        int pidfd;
        uint32_t newest;    /* the number of clients up to which they were looked for */
        uint64_t looked_ns; /* the last look */
        bool is_hasty;      /* held, and not looked at since */
        NvrmTargetFile *files;
        size_t n_files;
        NvrmHalDevice device;
        NvrmHalQueue *queues; /* one for each device of each client */
        NvrmChannel *channels;
        size_t n_queues, n_channels;
        bool has_lost; /* a channel that was stopped has gone, by this name at least */
} NvrmTarget;

#define NVRM_TARGET_NULL ((NvrmTarget){.pidfd = -EBADF})

/* Opens a target, which the caller gives back by nvrm_target_done(), and looks for its channels, which takes longer
 * than later looks. `start_time` 0: whatever process has that pid now. Returns 0; -ESRCH: the process is gone; -ENODEV:
 * it does not use the driver; -EPERM: we may not take its files; -EACCES: we may not open the driver; -EOPNOTSUPP: this
 * version of the driver is unknown. */
int nvrm_target_open(pid_t pid, uint64_t start_time, const NvrmTargetSys *sys, NvrmTarget *ret);

/* Releases the target's hold, and closes it. */
void nvrm_target_done(NvrmTarget *t);

/* Holds the process. When it is held already, this only stops channels made since. Returns 0 or an error of
 * nvrm_target_open(); -E2BIG: finding its channels would take too long; -EAGAIN: it has no channels yet; -EIO, -ETIME:
 * the hardware did not stop. After an error the process runs, unless the state is UNSURE, or HELD as before. */
int nvrm_target_hold(NvrmTarget *t);

/* When hold() is to be called once more, for channels that were made before it. NSEC_INFINITY: it is not needed. */
uint64_t nvrm_target_look_at(const NvrmTarget *t);

/* Resumes the process. Returns 0 or a negative errno; -ESRCH: the process is gone, which callers may ignore. After any
 * other error the caller tries again. */
int nvrm_target_release(NvrmTarget *t);

/* Resumes a process that a dead process of ours may have held. */
int nvrm_target_undo(NvrmTarget *t);

/* Returns a sentence for people about an error of these functions. Never NULL. */
const char *nvrm_privileged_explain(int error);
