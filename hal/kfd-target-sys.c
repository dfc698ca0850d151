/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Privileged holds of KFD: the system calls
 */

#include <fcntl.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>

#include "common/macro.h"
#include "common/process.h"
#include "common/stream-util.h"
#include "common/time-util.h"
#include "hal/device-file.h"
#include "hal/kfd-privileged.h"
#include "hal/kfd-proc.h"
#include "hal/kfd-topology.h"
#include "kfd-target-sys.h"

#define KFD_SYSFS_PATH "/sys/class/kfd/kfd"

/* Reads the device number that the kernel gave to /dev/kfd. */
static int read_device(DeviceFile *ret) {
        _cleanup_(fclosep)
        FILE *f = fopen(KFD_SYSFS_PATH "/dev", "re");

        if (!f)
                return negative_errno();
        *ret = (DeviceFile){.path = KFD_DEVICE_PATH};
        return fscanf(f, "%u:%u", &ret->major_of, &ret->minor_of) == 2 ? 0 : -EIO;
}

static int open_device(pid_t pid, int pidfd, int *at) {
        DeviceFile kfd;

        int r = read_device(&kfd);
        if (r >= 0)
                r = device_file_take_next(pid, pidfd, &kfd, at);
        return r == -ENOENT ? -ENODEV : r;
}

static int open_own(void) {
        int fd = open(KFD_DEVICE_PATH, O_RDWR | O_CLOEXEC);
        if (fd >= 0)
                return fd;
        return errno == EPERM ? -EACCES : errno == ENOENT ? -ENODEV : negative_errno();
}

static int open_events(void) {
        int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        return fd < 0 ? negative_errno() : fd;
}

/* A GPU that this process may not see could be one of MES. */
static int has_mes(pid_t pid) {
        _cleanup_(kfd_proc_queues_done)
        KfdProcQueues q = {0};
        KfdNode node;

        int r = kfd_proc_read_queues("", pid, &q);
        if (r >= 0 && q.n_hidden > 0)
                r = -ENODATA;
        for (size_t i = 0; r == 0 && i < q.n; i++) {
                r = kfd_topology_find(KFD_TOPOLOGY_PATH, q.queues[i].gpu_id, &node);
                if (r >= 0)
                        r = kfd_node_is_fragile(&node);
        }
        return r;
}

static int is_split(pid_t pid) {
        _cleanup_(kfd_proc_queues_done)
        KfdProcQueues q = {0};

        int r = kfd_proc_read_queues("", pid, &q);
        return r < 0 ? r : q.n_contexts > 0;
}

static int seize(pid_t pid) {
        return ptrace(PTRACE_SEIZE, pid, NULL, NULL) < 0 ? negative_errno() : 0;
}

static bool is_own_thread(pid_t tid) {
        char path[64];

        (void) snprintf(path, sizeof(path), "/proc/self/task/%d", (int) tid);
        return access(path, F_OK) == 0;
}

static void nap(void) {
        (void) usleep(50);
}

const KfdTargetSys kfd_target_sys = {
                .open_process = process_open,
                .open_device = open_device,
                .open_own = open_own,
                .open_events = open_events,
                .has_mes = has_mes,
                .is_split = is_split,
                .seize = seize,
                .tracer = process_tracer,
                .is_own_thread = is_own_thread,
                .ioctl = ioctl,
                .now = now_ns,
                .nap = nap,
};
