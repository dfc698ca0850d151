/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Privileged holds of NVIDIA's kernel driver: the system calls
 */

#include <fcntl.h>
#include <sys/ioctl.h>

#include "common/macro.h"
#include "common/process.h"
#include "common/time-util.h"
#include "hal/device-file.h"
#include "nvrm-target-sys.h"

#define CONTROL_PATH "/dev/nvidiactl"

/* The driver's own numbers, the same in all versions. */
#define CONTROL_MAJOR 195U
#define CONTROL_MINOR 255U

static const DeviceFile control = {.path = CONTROL_PATH, .major_of = CONTROL_MAJOR, .minor_of = CONTROL_MINOR};

static int open_file(pid_t pid, int pidfd, int *at) {
        return device_file_take_next(pid, pidfd, &control, at);
}

static int open_file_at(pid_t pid, int pidfd, int at) {
        return device_file_take(pid, pidfd, &control, at);
}

static int open_own(void) {
        int fd = open(CONTROL_PATH, O_RDWR | O_CLOEXEC);
        if (fd >= 0)
                return fd;
        return errno == EPERM ? -EACCES : errno == ENOENT ? -ENODEV : negative_errno();
}

const NvrmTargetSys nvrm_target_sys = {
                .open_process = process_open,
                .open_file = open_file,
                .open_file_at = open_file_at,
                .open_own = open_own,
                .ioctl = ioctl,
                .now = now_ns,
};
