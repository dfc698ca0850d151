/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Privileged holds of KFD, by the debugger interface. Debugging is enabled only while queues are suspended: it keeps
 * rocgdb out, takes the only debugger slot of some GPUs, and takes the fast path of the process's trap handler away.
 */

#include "kfd-debug.h"
#include "common/array.h"
#include "common/macro.h"
#include "hal/kfd-privileged.h"

#define QUEUES_MIN      64U
#define QUEUES_MAX      65536U
#define RUNTIME_ENABLED 1U
#define REFUSED         (KFD_DBG_QUEUE_INVALID | KFD_DBG_QUEUE_ERROR)

/* More interruptions of one call than signals cause. */
#define INTERRUPTS_MAX 100U

/* As ioctl(), but returns a negative errno, and repeats an interrupted call. */
static int debug_ioctl(const KfdTarget *t, unsigned long request, void *arg) {
        PROTECT_ERRNO;

        for (unsigned i = 0; i < INTERRUPTS_MAX; i++) {
                int r = t->sys->ioctl(t->device, request, arg);
                if (r >= 0)
                        return r;
                if (errno != EINTR && errno != EAGAIN)
                        return errno == ENOTTY ? -ENOSYS : negative_errno();
        }
        return -EINTR;
}

static int debug_call(const KfdTarget *t, KfdDbgTrapOp op, KfdDbgTrap *a) {
        a->pid = (uint32_t) t->pid;
        a->op = op;
        return debug_ioctl(t, KFD_IOC_DBG_TRAP, a);
}

static int debug_open(KfdTarget *t) {
        KfdVersion v = {0};

        /* ENABLE would register a process that KFD does not know. */
        if (t->sys->has_mes(t->pid) == -ESRCH)
                return -ENODEV;
        t->device = t->sys->open_own();
        if (t->device < 0)
                return t->device;
        int r = debug_ioctl(t, KFD_IOC_GET_VERSION, &v);
        if (r < 0)
                return r;
        if (v.major != KFD_API_MAJOR || v.minor < KFD_API_DBG_TRAP)
                return -ENOSYS;
        t->events = t->sys->open_events();
        return MIN(t->events, 0);
}

/* DISABLE resumes everything, and the caller need not be the tracer. EINVAL: it is not enabled. */
static int debug_undo(KfdTarget *t) {
        KfdDbgTrap a = {0};

        if (!t->enabled)
                return 0;
        int r = debug_call(t, KFD_DBG_TRAP_DISABLE, &a);
        if (r < 0 && r != -EINVAL && r != -ESRCH)
                return r;
        t->enabled = false;
        t->n_suspended = 0;
        return 0;
}

/* The process's RUNTIME_ENABLE may have begun between ENABLE and DISABLE, and would wait for ever: this event lets it
 * continue, now or later. */
static void debug_let_runtime_go(KfdTarget *t) {
        KfdDbgTrap a = {.send_runtime_event = {.exception_mask = KFD_EXCEPTION_MASK(KFD_EXCEPTION_PROCESS_RUNTIME)}};

        (void) debug_call(t, KFD_DBG_TRAP_SEND_RUNTIME_EVENT, &a);
}

/* When the GPU has no room for another debugger, ENABLE succeeds, and only the runtime's state shows it. */
static int debug_enable(KfdTarget *t) {
        KfdRuntimeInfo info = {0};
        KfdDbgTrap a = {.enable = {.rinfo_ptr = (uint64_t) (uintptr_t) &info,
                                        .rinfo_size = sizeof(info),
                                        .dbg_fd = (uint32_t) t->events}};

        if (t->enabled)
                return 0;
        int r = debug_call(t, KFD_DBG_TRAP_ENABLE, &a);
        if (r == -EALREADY)
                return -EBUSY;
        if (r < 0)
                return r;
        t->enabled = true;
        if (info.runtime_state == RUNTIME_ENABLED)
                return 0;
        bool is_up = info.runtime_state != 0;
        if (!is_up)
                debug_let_runtime_go(t);
        return is_up ? -EBUSY : -EAGAIN;
}

bool kfd_debug_is_suspended(const KfdTarget *t, uint32_t id) {
        for (uint32_t i = 0; i < t->n_suspended; i++)
                if (t->suspended[i] == id)
                        return true;
        return false;
}

/* Reads the snapshot of all queues and clears their "new" exception: SUSPEND skips queues that have it. */
static int debug_see(KfdTarget *t, KfdQueueSnapshot **ret, uint32_t *ret_n) {
        for (uint32_t room = QUEUES_MIN; room <= QUEUES_MAX; room *= 2) {
                _cleanup_free_ KfdQueueSnapshot *s = calloc(room, sizeof(*s));
                KfdDbgTrap a = {.queue_snapshot = {.exception_mask = KFD_EXCEPTION_MASK(KFD_EXCEPTION_QUEUE_NEW),
                                                .snapshot_buf_ptr = (uint64_t) (uintptr_t) s,
                                                .num_queues = room,
                                                .entry_size = sizeof(*s)}};

                if (!s)
                        return -ENOMEM;
                int r = debug_call(t, KFD_DBG_TRAP_GET_QUEUE_SNAPSHOT, &a);
                if (r < 0)
                        return r;
                if (a.queue_snapshot.num_queues > room)
                        continue;
                *ret = TAKE_PTR(s);
                *ret_n = a.queue_snapshot.num_queues;
                return 0;
        }
        return -E2BIG;
}

static int debug_remember(KfdTarget *t, const uint32_t *ids, uint32_t n) {
        uint32_t *suspended = array_reserve(
                        t->suspended, &t->suspended_room, (size_t) t->n_suspended + n, sizeof(*suspended));

        if (!suspended)
                return -ENOMEM;
        t->suspended = suspended;
        for (uint32_t i = 0; i < n; i++)
                if (!(ids[i] & REFUSED) && !kfd_debug_is_suspended(t, ids[i]))
                        t->suspended[t->n_suspended++] = ids[i];
        return 0;
}

static void debug_forget(KfdTarget *t, uint32_t id) {
        for (uint32_t i = 0; i < t->n_suspended; i++)
                if (t->suspended[i] == id) {
                        t->suspended[i] = t->suspended[--t->n_suspended];
                        return;
                }
}

/* Returns the number of suspended queues, or -ETIME when the hardware did not stop one. */
static int debug_stop(KfdTarget *t, uint32_t *ids, uint32_t n) {
        KfdDbgTrap a = {.suspend_queues = {.queue_array_ptr = (uint64_t) (uintptr_t) ids, .num_queues = n}};

        int r = n == 0 ? 0 : debug_call(t, KFD_DBG_TRAP_SUSPEND_QUEUES, &a);
        if (r < 0)
                return r;
        int q = debug_remember(t, ids, n);
        if (q < 0)
                return q;
        for (uint32_t i = 0; i < n; i++)
                if (ids[i] & KFD_DBG_QUEUE_ERROR)
                        return -ETIME;
        return r;
}

static int debug_begin(KfdTarget *t, KfdQueueSnapshot **ret, uint32_t *ret_n) {
        int r = debug_enable(t);
        return r < 0 ? r : debug_see(t, ret, ret_n);
}

static int debug_stop_all(KfdTarget *t) {
        _cleanup_free_ KfdQueueSnapshot *s = NULL;
        uint32_t n = 0, n_ids = 0;

        int r = debug_begin(t, &s, &n);
        if (r < 0)
                return r;
        _cleanup_free_ uint32_t *ids = calloc((size_t) n + 1, sizeof(*ids));
        if (!ids)
                return -ENOMEM;
        for (uint32_t i = 0; i < n; i++)
                if (kfd_queue_type_is_compute(s[i].queue_type) && !kfd_debug_is_suspended(t, s[i].queue_id))
                        ids[n_ids++] = s[i].queue_id;
        return debug_stop(t, ids, n_ids);
}

/* Undoes everything after a failure, because the state after it is unknown. */
static int debug_end(KfdTarget *t, int r) {
        if (r >= 0)
                t->state = t->n_suspended > 0 || t->state == TARGET_HELD ? TARGET_HELD : TARGET_RUNNING;
        else
                t->state = debug_undo(t) < 0 ? TARGET_UNSURE : TARGET_RUNNING;
        return r;
}

static int debug_hold(KfdTarget *t) {
        int r = debug_stop_all(t);

        if (r >= 0)
                t->state = TARGET_HELD; /* also without queues */
        return debug_end(t, MIN(r, 0));
}

int kfd_debug_suspend(KfdTarget *t) {
        _cleanup_free_ KfdQueueSnapshot *s = NULL;
        uint32_t n;

        int r = debug_begin(t, &s, &n);
        return debug_end(t, r < 0 ? r : debug_stop(t, t->ids, t->n_ids));
}

int kfd_debug_resume(KfdTarget *t) {
        KfdDbgTrap a = {.resume_queues = {.queue_array_ptr = (uint64_t) (uintptr_t) t->ids, .num_queues = t->n_ids}};

        if (t->n_ids == 0)
                return 0;
        int r = debug_call(t, KFD_DBG_TRAP_RESUME_QUEUES, &a);
        if (r < 0)
                return r;
        for (uint32_t i = 0; i < t->n_ids; i++)
                if (!(t->ids[i] & KFD_DBG_QUEUE_ERROR))
                        debug_forget(t, t->ids[i] & ~KFD_DBG_QUEUE_INVALID);
        if (t->n_suspended == 0) {
                int q = debug_undo(t);
                t->state = q < 0 ? TARGET_UNSURE : TARGET_RUNNING;
        }
        return r;
}

const KfdPrivilegedOps kfd_debug_ops = {
                .name = "debug",
                .inherit = HAL_INHERIT_RUN,
                .open = debug_open,
                .hold = debug_hold,
                .undo = debug_undo,
};
