/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * ioctl() on the simulated device: permissions, the calls, and failures on purpose
 *
 * The order of the checks is the driver's: the number, then whose device it is, then privileges, then the call.
 */

#include <errno.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "abi.h"
#include "sim.h"

#define NR_DBG_REGISTER     0x0d
#define NR_DBG_WAVE_CONTROL 0x10
#define CAP_CRIU            40 /* CAP_CHECKPOINT_RESTORE */
#define ARGUMENT_MAX        (1U << _IOC_SIZEBITS)
#define ARGUMENT_KNOWN      256U /* at least what the longest structure takes */

static bool has_capability(int capability) {
        struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct d[2] = {0};

        if (syscall(SYS_capget, &h, d) < 0)
                return false;
        return d[capability / 32].effective & (1U << (capability % 32));
}

int sim_copy_in(void *to, uint64_t from, size_t size) {
        const struct iovec local = {to, size}, remote = {(void *) (uintptr_t) from, size};

        return size == 0 || process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t) size ? 0 : -EFAULT;
}

int sim_copy_out(uint64_t to, const void *from, size_t size) {
        const struct iovec local = {(void *) (uintptr_t) from, size}, remote = {(void *) (uintptr_t) to, size};

        return size == 0 || process_vm_writev(getpid(), &local, 1, &remote, 1, 0) == (ssize_t) size ? 0 : -EFAULT;
}

static int get_version(void *arg) {
        KfdVersion *a = arg;
        a->major = KFD_API_MAJOR;
        a->minor = sim_world()->options.api_minor;
        return 0;
}

static int get_clock_counters(void *arg) {
        KfdClockCounters *a = arg;
        a->gpu_clock_counter = sim_gpu_clock(now_ns());
        a->cpu_clock_counter = a->system_clock_counter = now_ns();
        a->system_clock_freq = NSEC_PER_SEC;
        return 0;
}

static int dispatch(SimProcess *p, KfdNr nr, void *arg) {
        const SimOptions *o = &sim_world()->options;

        switch (nr) {
        case KFD_NR_GET_VERSION:
                return get_version(arg);
        case KFD_NR_GET_CLOCK_COUNTERS:
                return get_clock_counters(arg);

        case KFD_NR_CREATE_QUEUE:
        case KFD_NR_DESTROY_QUEUE:
        case KFD_NR_UPDATE_QUEUE:
        case KFD_NR_SET_CU_MASK:
        case KFD_NR_GET_QUEUE_WAVE_STATE:
                return sim_queue_ioctl(p, nr, arg);

        case KFD_NR_CREATE_EVENT:
        case KFD_NR_DESTROY_EVENT:
        case KFD_NR_SET_EVENT:
        case KFD_NR_RESET_EVENT:
        case KFD_NR_WAIT_EVENTS:
                return sim_event_ioctl(p, nr, arg);

        case KFD_NR_CRIU_OP:
                return sim_criu_ioctl(p, arg);
        case KFD_NR_RUNTIME_ENABLE:
                return o->api_minor >= KFD_API_DBG_TRAP ? sim_runtime_ioctl(p, arg) : -ENOTTY;
        case KFD_NR_DBG_TRAP:
                return o->api_minor >= KFD_API_DBG_TRAP ? sim_debug_ioctl(arg) : -ENOTTY;

        default:
                return sim_memory_ioctl(p, nr, arg);
        }
}

static int call_process(pid_t owner, KfdNr nr, void *arg) {
        SimFailure f = sim_failure_take(nr);

        if (f.hangs)
                (void) usleep((useconds_t) (sim_world()->options.timeout_ns / NSEC_PER_USEC));
        if (f.error < 0 && !f.late)
                return f.error;

        sim_lock();
        SimProcess *p = owner == getpid() ? sim_process_self() : sim_process_find(owner);
        sim_unlock();
        if (!p)
                return -ESRCH;
        int r = dispatch(p, nr, arg);
        /* If a queue could not be made, the driver leaves nothing of it. */
        if (f.error < 0 && r >= 0 && nr == KFD_NR_CREATE_QUEUE)
                (void) sim_queue_ioctl(p, KFD_NR_DESTROY_QUEUE,
                                &(KfdDestroyQueue){.queue_id = ((KfdCreateQueue *) arg)->queue_id});
        return f.error < 0 ? f.error : r;
}

/* The driver itself knows the direction of each argument, and ignores the caller's bits for it. */
static unsigned direction(KfdNr nr) {
        switch (nr) {
        case KFD_NR_GET_VERSION:
        case KFD_NR_GET_PROCESS_APERTURES:
                return _IOC_READ;
        case KFD_NR_SET_MEMORY_POLICY:
        case KFD_NR_UPDATE_QUEUE:
        case KFD_NR_DESTROY_EVENT:
        case KFD_NR_SET_EVENT:
        case KFD_NR_RESET_EVENT:
        case KFD_NR_SET_TRAP_HANDLER:
        case KFD_NR_ACQUIRE_VM:
        case KFD_NR_FREE_MEMORY:
        case KFD_NR_SET_CU_MASK:
                return _IOC_WRITE;
        default:
                return _IOC_READ | _IOC_WRITE;
        }
}

/* Copies as the driver does: bytes that the caller leaves out read as 0, bytes beyond the structure come back
 * unchanged, and the result is copied out also after an error. */
static int call_copied(pid_t owner, unsigned long request, void *arg) {
        uint64_t copy[ARGUMENT_MAX / sizeof(uint64_t)];
        KfdNr nr = (KfdNr) _IOC_NR(request);
        size_t size = _IOC_SIZE(request);

        memset(copy, 0, MAX(size, (size_t) ARGUMENT_KNOWN));
        if (direction(nr) & _IOC_WRITE && sim_copy_in(copy, (uintptr_t) arg, size) < 0)
                return -EFAULT;
        int r = call_process(owner, nr, copy);
        if (direction(nr) & _IOC_READ && sim_copy_out((uintptr_t) arg, copy, size) < 0)
                return -EFAULT;
        return r;
}

int sim_ioctl(pid_t owner, unsigned long request, void *arg) {
        PROTECT_ERRNO;
        int nr = (int) _IOC_NR(request); /* whatever the type */
        int end = sim_world()->options.api_minor >= KFD_API_DBG_TRAP ? _KFD_NR_END : KFD_NR_EXPORT_DMABUF;

        if (nr < KFD_NR_GET_VERSION || nr >= end)
                return -ENOTTY;

        /* The device of another process accepts only CRIU_OP, and only from a tracer of that process. */
        if (owner != getpid() && !(nr == KFD_NR_CRIU_OP && sim_tracer(owner) == (pid_t) syscall(SYS_gettid)))
                return -EBADF;
        if (nr == KFD_NR_CRIU_OP && !has_capability(CAP_CRIU) && !has_capability(CAP_SYS_ADMIN))
                return -EACCES;
        if (nr >= NR_DBG_REGISTER && nr <= NR_DBG_WAVE_CONTROL)
                return -EPERM;
        return call_copied(owner, request, arg);
}
