/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * kfd-cases: how hal/kfd-privileged.h works with these rules, as far as that shows without a GPU
 */

#include <linux/capability.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "hal/kfd-privileged.h"
#include "hal/kfd-target-sys.h"
#include "tests/kfdsim/kfd-cases.h"

/* A target whose device is open, as hal/ sees it. */
static int hold_target(PrivilegedMode mode, int (*f)(KfdTarget *t)) {
        KfdTarget k = KFD_TARGET_NULL;
        Target t;

        if (target_start(true, &t) < 0)
                return CASE_FAILED;
        int r = expect("open", kfd_target_open(mode, t.pid, 0, false, &kfd_target_sys, &k), 0) ?: f(&k);
        kfd_target_done(&k);
        target_stop(&t);
        return r;
}

/* Without a GPU there is nothing to pause; the undo finds nothing to do. */
static int hold_criu(KfdTarget *t) {
        _cleanup_close_ int fd = kfd_open();
        int want = has_gpu(fd) ? 0 : -ENODEV, r = 0;

        for (unsigned i = 0; i < 5 && r == 0; i++)
                r = expect("hold", kfd_target_hold(t), want) ?:
                                expect("is held", t->state == TARGET_HELD, want == 0) ?:
                                expect("hold again", kfd_target_hold(t), want) ?:
                                expect("release", kfd_target_release(t), 0) ?:
                                expect("state", (int) t->state, TARGET_RUNNING) ?:
                                expect("undo of nothing", kfd_target_undo(t), 0);
        return r;
}

static int case_hold_criu(void) {
        return hold_target(PRIVILEGED_CRIU, hold_criu);
}

/* The runtime of the target has not called RUNTIME_ENABLE: the target is released at once. */
static int hold_debug(KfdTarget *t) {
        int r = 0;

        for (unsigned i = 0; i < 5 && r == 0; i++)
                r = expect("hold", kfd_target_hold(t), -EAGAIN) ?:
                                expect("state", (int) t->state, TARGET_RUNNING) ?:
                                expect("not enabled", t->enabled, false);
        return r;
}

static int case_hold_debug(void) {
        return hold_target(PRIVILEGED_DEBUG, hold_debug);
}

/* A process whose runtime is up, traced by a thread of its own: it can be suspended as a whole, even without a queue,
 * and resumed. */
static int hold_self_once(KfdTarget *t) {
        uint32_t ids[2] = {NO_SUCH_QUEUE, NO_SUCH_QUEUE + 1};

        return expect("hold", kfd_target_hold(t), 0) ?: expect("state", (int) t->state, TARGET_HELD) ?:
                        expect("hold again", kfd_target_hold(t), 0) ?: expect("release", kfd_target_release(t), 0) ?:
                        expect("suspend of unknown queues", kfd_target_suspend(t, ids, 2), 0) ?:
                        expect("id comes back INVALID", (ids[0] & KFD_DBG_QUEUE_INVALID) != 0, 1) ?:
                        expect("release of nothing", kfd_target_release(t), 0) ?:
                        expect("state", (int) t->state, TARGET_RUNNING);
}

static int hold_self(int fd) {
        KfdTarget t = KFD_TARGET_NULL;

        int r = expect("RUNTIME_ENABLE", runtime_enable(fd, KFD_RUNTIME_MODE_ENABLE), 0)
                        ?: expect("open", kfd_target_open(PRIVILEGED_DEBUG, getpid(), 0, false, &kfd_target_sys, &t),
                                           0);
        for (unsigned i = 0; i < 5 && r == 0; i++)
                r = hold_self_once(&t);
        kfd_target_done(&t);
        return r;
}

static int case_hold_self(void) {
        return with_kfd(hold_self);
}

/* A look at a process does not register it with KFD. */
static int case_hold_without_kfd(void) {
        KfdTarget k = KFD_TARGET_NULL;
        char path[64];
        Target t;

        if (target_start(false, &t) < 0)
                return CASE_FAILED;
        (void) snprintf(path, sizeof(path), "/sys/class/kfd/kfd/proc/%d", (int) t.pid);
        int r = expect("criu", kfd_target_open(PRIVILEGED_CRIU, t.pid, 0, false, &kfd_target_sys, &k), -ENODEV);
        r = r ?: expect("debug", kfd_target_open(PRIVILEGED_DEBUG, t.pid, 0, false, &kfd_target_sys, &k), -ENODEV);
        r = r ?: expect("KFD does not know it", access(path, F_OK), -1);
        target_stop(&t);
        return r
                        ?: expect("a dead one", kfd_target_open(PRIVILEGED_CRIU, t.pid, 0, false, &kfd_target_sys, &k),
                                           -ESRCH);
}

/* Which capability it takes: CAP_SYS_PTRACE for another user's process, CAP_CHECKPOINT_RESTORE for the pause. */
typedef struct Privileges {
        PrivilegedMode mode;
        uint64_t capabilities;
        int open, hold;
        pid_t target;
} Privileges;

static int drop_all_but(uint64_t capabilities) {
        struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct d[2] = {0};

        d[0].effective = d[0].permitted = (uint32_t) capabilities;
        d[1].effective = d[1].permitted = (uint32_t) (capabilities >> 32);
        return prctl(PR_SET_KEEPCAPS, 1) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
                                        setresuid(NOBODY, NOBODY, NOBODY) < 0 || syscall(SYS_capset, &h, d) < 0
                        ? negative_errno()
                        : 0;
}

static int with_privileges(void *userdata) {
        const Privileges *p = userdata;
        KfdTarget k = KFD_TARGET_NULL;

        int r = expect("privileges", drop_all_but(p->capabilities), 0)
                        ?: expect("open", kfd_target_open(p->mode, p->target, 0, false, &kfd_target_sys, &k), p->open);
        if (r == CASE_OK && p->open == 0)
                r = expect("hold", kfd_target_hold(&k), p->hold);
        kfd_target_done(&k);
        return r;
}

static int case_hold_capabilities(void) {
        const uint64_t trace = UINT64_C(1) << CAP_SYS_PTRACE, open_any = UINT64_C(1) << CAP_DAC_OVERRIDE,
                       restore = UINT64_C(1) << 40 /* CAP_CHECKPOINT_RESTORE */;
        _cleanup_close_ int fd = kfd_open();
        const int held = has_gpu(fd) ? 0 : -ENODEV;
        Privileges rows[] = {
                        {PRIVILEGED_CRIU, 0, .open = -EPERM},
                        {PRIVILEGED_CRIU, restore, .open = -EPERM},
                        {PRIVILEGED_CRIU, trace, .hold = -EACCES},
                        {PRIVILEGED_CRIU, trace | restore, .hold = held},
                        {PRIVILEGED_DEBUG, open_any, .hold = -EPERM},
                        {PRIVILEGED_DEBUG, open_any | trace, .hold = -EAGAIN},
        };
        int r = CASE_OK;

        for (size_t i = 0; i < ELEMENTSOF(rows) && r == CASE_OK; i++) {
                Target t;
                if (target_start(true, &t) < 0)
                        return CASE_FAILED;
                rows[i].target = t.pid;
                r = in_child(with_privileges, rows + i);
                if (r != CASE_OK)
                        printf("# row %zu\n", i);
                target_stop(&t);
        }
        return r;
}

const Case hold_cases[] = {
                {"hold-criu", case_hold_criu},
                {"hold-debug", case_hold_debug},
                {"hold-self", case_hold_self},
                {"hold-without-kfd", case_hold_without_kfd},
                {"hold-capabilities", case_hold_capabilities},
                {NULL, NULL},
};
