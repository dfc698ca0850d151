/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * All processes of this host that have a GPU open, and whether they are scheduled
 *
 * A GPU is opened by a device file: /dev/kfd, /dev/nvidia*, /dev/dri/renderD*. It is recognised by the name under which
 * it was opened, or by the driver's number, since a container may have another name for it. Seeing which files another
 * user's process has open takes privileges (CAP_SYS_PTRACE, and CAP_DAC_READ_SEARCH without root). Processes that may
 * not be looked at are counted.
 *
 * No process is waited for: none of its own files is read. What a process has mapped is read only if it has a GPU open
 * and is not registered. The kernel makes this read wait while the process changes its mappings, so a child does it,
 * which is killed after HOST_READ_NS.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/macro.h"

typedef enum HostDevice {
        HOST_KFD = 1 << 0,
        HOST_NVIDIA = 1 << 1,
        HOST_RENDER = 1 << 2,
} HostDevice;

typedef enum HostLayer {
        HOST_LAYER_OPENCL = 1 << 0,
        HOST_LAYER_CUDA = 1 << 1,
        HOST_LAYER_KFD = 1 << 2,
        HOST_LAYER_HIP = 1 << 3,
        HOST_LIBRARY = 1 << 4, /* libxsched itself */
} HostLayer;

typedef enum HostState {
        HOST_SCHEDULED,
        HOST_NO_QUEUE,     /* registered, and no queue of it is hooked */
        HOST_UNREGISTERED, /* a layer is there, and it is not registered */
        HOST_DISABLED,     /* the same, by XSCHED_DISABLE */
        HOST_NO_LAYER,
        HOST_UNKNOWN, /* what it has loaded cannot be read */
        _HOST_STATE_MAX,
} HostState;

/* "scheduled", "no-queue", "unregistered", "disabled", "no-layer", "unknown". */
const char *host_state_to_string(HostState v);

/* Limits of the time for one process, and for all processes that take longer. When the latter is used up, further
 * processes are not looked at. */
#define HOST_READ_NS     (UINT64_C(200) * 1000 * 1000)
#define HOST_READ_ALL_NS (UINT64_C(1000) * 1000 * 1000)

typedef struct HostProcess {
        pid_t pid;
        uid_t uid;
        char command[32];
        unsigned devices; /* mask of HostDevice */
        int layers;       /* mask of HostLayer; negative: it cannot be read, or has not been (-ENODATA) */
        bool disabled;    /* by XSCHED_DISABLE */
} HostProcess;

typedef struct HostProcesses {
        HostProcess *processes; /* by pid */
        size_t n;
        size_t n_unseen; /* what they have open could not be looked at */
} HostProcesses;

/* 0 or a negative errno. */
int host_scan(HostProcesses *ret);
void host_processes_done(HostProcesses *p);

/* Returns the mask of the GPU devices that a link of /proc/PID/fd may name, judged by the name without its number; 0:
 * none. Pure. */
unsigned host_device_of_name(const char *name);

/* Returns the state of a process that has registered `n_queues` queues. < 0: it is not registered, and what it has
 * loaded was read, if that was possible. Pure. */
HostState host_judge(const HostProcess *p, int64_t n_queues);
