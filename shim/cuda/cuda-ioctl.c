/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Between libcuda and the kernel: ioctl()
 *
 * libcuda calls libc's. Calls that are none of the driver's about objects cost two comparisons.
 */

#undef _FORTIFY_SOURCE

#include <sys/ioctl.h>

#include "common/ioctl-arguments.h"
#include "common/macro.h"
#include "common/signal-mask.h"
#include "shim/cuda/cuda-next-ioctl.h"
#include "shim/cuda/cuda-rm.h"
#include "shim/cuda/cuda-version.h"

/* A call of the driver: its number, and the size and the place of its parameters. */
typedef struct Call {
        int fd;
        unsigned long request;
        void *arg;
        unsigned nr;
        size_t size;
        const void *parameters;
} Call;

static int pass(const Call *c) {
        return cuda_next_ioctl_function()(c->fd, c->request, c->arg);
}

/* Parameters that the driver has read may have been unmapped by another thread since. */
static uint32_t engine_of(const NvrmAllocShort *a) {
        NvrmGroupParameters p = {};

        if (a->class == NVRM_CLASS_CHANNEL_GROUP && a->parameters != 0)
                (void) arguments_read(&p, (const void *) (uintptr_t) a->parameters, sizeof(p));
        return p.engine;
}

/* Handles both forms of the call: the longer one begins as the shorter one does. */
static int pass_alloc(const Call *c) {
        int r = pass(c);
        if (r < 0)
                return r;

        PROTECT_ERRNO;
        NvrmAllocShort a;
        NvrmAlloc l;
        bool read = arguments_read(c->size == sizeof(l) ? (void *) &l : &a, c->parameters, c->size);
        if (read && c->size == sizeof(l)) {
                memcpy(&a, &l, offsetof(NvrmAllocShort, parameters_size));
                a.parameters_size = l.parameters_size;
                a.status = l.status;
        }
        if (read && a.status == NVRM_OK)
                cuda_rm_alloc(c->fd, &a, engine_of(&a));
        return r;
}

static int pass_free(const Call *c) {
        NvrmFree a;

        if (!cuda_rm_looks() || !arguments_read(&a, c->parameters, sizeof(a)))
                return pass(c);
        SIGNALS_BLOCKED;
        uint64_t epoch = cuda_rm_free_begin(a.client, a.object);
        int r = pass(c);
        if (epoch == 0)
                return r;
        PROTECT_ERRNO;
        NvrmFree after = a;
        bool known = r >= 0 && arguments_read(&after, c->parameters, sizeof(after));
        cuda_rm_free_end(a.client, a.object, epoch, known && after.status == NVRM_OK);
        return r;
}

static int pass_dup(const Call *c) {
        int r = pass(c);
        if (r < 0)
                return r;

        PROTECT_ERRNO;
        NvrmDup a;
        if (arguments_read(&a, c->parameters, sizeof(a)) && a.status == NVRM_OK)
                cuda_rm_dup(&a);
        return r;
}

/* GPFIFO_SCHEDULE of a group, and of a channel of any class. */
static bool is_schedule(uint32_t command) {
        return command == NVRM_CMD_GROUP_SCHEDULE || (command & 0x00ffffff) == NVRM_CMD_CHANNEL_SCHEDULE_OF_ANY;
}

static int pass_control(const Call *c) {
        int r = pass(c);
        if (r < 0)
                return r;

        const NvrmControl *a = c->parameters;
        if (unlikely(is_schedule(a->command)) && a->status == NVRM_OK) {
                PROTECT_ERRNO;
                cuda_rm_schedule(a->client, a->object);
        }
        /* Also after an error: the driver may have handled a part of the list. */
        if (unlikely(a->command == NVRM_CMD_DISABLE_CHANNELS)) {
                PROTECT_ERRNO;
                cuda_rm_step_back();
        }
        return r;
}

static int pass_object_call(const Call *c) {
        switch (c->nr) {
        case NVRM_NR_ALLOC:
                return c->size == sizeof(NvrmAlloc) || c->size == sizeof(NvrmAllocShort) ? pass_alloc(c) : pass(c);
        case NVRM_NR_FREE:
                return c->size == sizeof(NvrmFree) ? pass_free(c) : pass(c);
        case NVRM_NR_DUP:
                return c->size == sizeof(NvrmDup) ? pass_dup(c) : pass(c);
        case NVRM_NR_CONTROL:
                return c->size == sizeof(NvrmControl) ? pass_control(c) : pass(c);
        default:
                return pass(c);
        }
}

static _noinline_ int driver_ioctl(int fd, unsigned long request, void *arg) {
        Call c = {.fd = fd,
                        .request = request,
                        .arg = arg,
                        .nr = _IOC_NR(request),
                        .size = _IOC_SIZE(request),
                        .parameters = arg};
        NvrmLarge l;

        if (cuda_version_is_off())
                return pass(&c);
        if (c.nr == NVRM_NR_LARGE && c.size == sizeof(l)) {
                if (!arguments_read(&l, arg, sizeof(l)))
                        return pass(&c);
                c.nr = l.nr;
                c.size = l.size;
                c.parameters = (const void *) (uintptr_t) l.argument;
        }
        return pass_object_call(&c);
}

/* The parameters are named as in libc's header. */
_public_
int ioctl(int fd, unsigned long request, ...) {
        void *arg = ARGUMENT_BEHIND(request);

        if (likely(_IOC_TYPE(request) != NVRM_IOCTL_TYPE))
                return cuda_next_ioctl_function()(fd, request, arg);
        return driver_ioctl(fd, request, arg);
}
