/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Privileged holds of NVIDIA's kernel driver: the system calls
 */

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "common/file-status.h"
#include "common/macro.h"
#include "common/process.h"
#include "common/time-util.h"
#include "nvrm-target-sys.h"

#define CONTROL_PATH "/dev/nvidiactl"

/* The driver's own numbers, the same in all versions: the maker of the mount namespace chooses names. */
#define CONTROL_MAJOR 195U
#define CONTROL_MINOR 255U

static bool is_control(int fd) {
        struct stat st;

        return fd_status(fd, &st) >= 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(CONTROL_MAJOR, CONTROL_MINOR);
}

static int open_file_at(int pidfd, int at) {
        _cleanup_close_ int fd = (int) syscall(SYS_pidfd_getfd, pidfd, at, 0);
        if (fd < 0)
                return errno == EBADF ? -ENODEV : negative_errno();
        return is_control(fd) ? TAKE_FD(fd) : -ENODEV;
}

/* Tries one fd after the other: reading /proc/PID/fd of another user's process needs a capability more than taking the
 * fds. */
static int open_file(pid_t pid, int pidfd, int *at) {
        int n_fds = 0;

        int r = process_fd_size(pid, &n_fds);
        if (r < 0)
                return r;
        for (int i = *at; i < n_fds; i++) {
                int fd = open_file_at(pidfd, i);
                if (fd == -ENODEV)
                        continue;
                *at = i;
                return fd;
        }
        return -ENODEV;
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
