/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Privileged holds of KFD, by CRIU_OP: see kfd-privileged.h
 */

#include "kfd-criu.h"
#include "common/macro.h"
#include "hal/kfd-privileged.h"

#define ATTEMPTS_MAX 100U

static int criu_next_device(KfdTarget *t) {
        int at = t->device_at + 1, fd = t->sys->open_device(t->pid, t->pidfd, &at);

        if (fd < 0)
                return fd;
        safe_close(t->device);
        t->device = fd;
        t->device_at = at;
        return 0;
}

/* An fd that was inherited over fork belongs to the parent's context, and the driver answers EBADF: the next fd may be
 * the process's own. */
static int criu_call(KfdTarget *t, KfdCriuOp op) {
        KfdCriu c = {.op = op};
        PROTECT_ERRNO;

        for (;;) {
                if (t->sys->ioctl(t->device, KFD_IOC_CRIU_OP, &c) >= 0)
                        return 0;
                if (errno != EBADF)
                        return negative_errno();
                int r = criu_next_device(t);
                if (r < 0)
                        return r;
        }
}

static bool is_interrupt(int r) {
        return r == -EINTR || r == -EAGAIN;
}

/* Calling UNPAUSE twice is harmless: the second call returns EINVAL. */
static int criu_undo(KfdTarget *t) {
        int r = -EINTR;

        for (unsigned i = 0; i < ATTEMPTS_MAX && is_interrupt(r); i++)
                r = criu_call(t, KFD_CRIU_UNPAUSE);
        if (r == -EINVAL)
                r = 0;
        return r == -ENOTTY ? -ENOSYS : r;
}

/* Undo each failed call before the next: it may have paused the process, and a second pause would stay. */
static int criu_hold(KfdTarget *t) {
        int r = -EINTR;

        for (unsigned i = 0; i < ATTEMPTS_MAX && is_interrupt(r); i++) {
                r = criu_call(t, KFD_CRIU_PROCESS_INFO);
                if (r >= 0) {
                        t->state = TARGET_HELD;
                        return 0;
                }
                t->state = criu_undo(t) < 0 ? TARGET_UNSURE : TARGET_RUNNING;
                if (t->state == TARGET_UNSURE)
                        break;
        }
        return r == -ENOTTY ? -ENOSYS : r;
}

static int criu_open(KfdTarget *t) {
        t->device = t->sys->open_device(t->pid, t->pidfd, &t->device_at);
        return MIN(t->device, 0);
}

const KfdPrivilegedOps kfd_criu_ops = {
                .name = "criu",
                .inherit = HAL_INHERIT_HOLD,
                .open = criu_open,
                .hold = criu_hold,
                .undo = criu_undo,
                .traces_undo = true,
};
