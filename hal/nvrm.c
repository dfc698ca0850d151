/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The backend for NVIDIA's kernel driver: see nvrm.h for what a hold means here
 */

#include "hal/nvrm.h"

#include <errno.h>
#include <stdlib.h>

#include "common/macro.h"
#include "common/time-util.h"
#include "hal/nvrm-abi.h"

/* A signal that interrupts a call before it has begun comes once, or a few times. */
#define INTERRUPTS_MAX 100U

static NvrmHalQueue *nvrm_queue(const HalQueue *q) {
        return container_of((HalQueue *) q, NvrmHalQueue, hal);
}

void nvrm_hal_init(NvrmHalQueue *q, NvrmHalDevice *device) {
        *q = (NvrmHalQueue){.hal.ops = &hal_nvrm_ops, .device = device, .fd = -EBADF};
}

/* --- versions --- */

/* Exact versions that xsched has run on: on an H200 (tests/bench/cuda/nvrm-probe.py). */
static const char *const seen_versions[] = {"580.159.04"};

/* Goes by branch. In the headers that were compared (open-gpu-kernel-modules) the structures and numbers are the same,
 * and the flags let every user make the call. */
NvrmKnown nvrm_version_known(const char *version) {
        static const unsigned read_branches[] = {535, 545, 550, 555, 580, 590, 595};
        char *end;

        unsigned long branch = version ? strtoul(version, &end, 10) : 0;
        if (branch == 0 || *end != '.')
                return NVRM_UNKNOWN;
        for (size_t i = 0; i < ELEMENTSOF(seen_versions); i++)
                if (streq(seen_versions[i], version))
                        return NVRM_SEEN;
        for (size_t i = 0; i < ELEMENTSOF(read_branches); i++)
                if (read_branches[i] == branch)
                        return NVRM_READ;
        return NVRM_UNKNOWN;
}

/* --- calls --- */

/* -ENOENT: an object named in the call does not exist. */
static int status_to_errno(uint32_t status) {
        switch (status) {
        case NVRM_OK:
                return 0;
        case NVRM_BUSY_RETRY:
        case NVRM_STATE_IN_USE:
                return -EAGAIN;
        case NVRM_INVALID_CHANNEL:
        case NVRM_INVALID_CLIENT:
        case NVRM_INVALID_OBJECT:
        case NVRM_INVALID_OBJECT_HANDLE:
        case NVRM_OBJECT_NOT_FOUND:
                return -ENOENT;
        case NVRM_INSUFFICIENT_PERMISSIONS:
                return -EACCES;
        case NVRM_GPU_IS_LOST:
                return -ENODEV;
        case NVRM_NOT_SUPPORTED:
                return -EOPNOTSUPP;
        case NVRM_TIMEOUT:
                return -ETIME;
        default:
                return -EIO;
        }
}

/* -ESTALE: the fd no longer belongs to the driver. */
static int call_error(int error) {
        switch (error) {
        case EBADF:
        case ENOTTY:
                return -ESTALE;
        case ENODEV:
        case EACCES:
                return -error;
        default:
                return -EIO;
        }
}

int nvrm_control(int (*ioctl)(int fd, unsigned long request, ...), int fd, uint32_t client, uint32_t object,
                uint32_t command, void *parameters, uint32_t size) {
        NvrmControl a = {
                        .client = client,
                        .object = object,
                        .command = command,
                        .parameters = (uintptr_t) parameters,
                        .parameters_size = size,
        };
        PROTECT_ERRNO;

        for (unsigned i = 0; i < INTERRUPTS_MAX; i++) {
                if (ioctl(fd, NVRM_IOC(NVRM_NR_CONTROL, NvrmControl), &a) >= 0)
                        return status_to_errno(a.status);
                if (errno != EINTR && errno != EAGAIN)
                        return call_error(errno);
        }
        return -EAGAIN;
}

/* The channels of one call, and the queue whose file and subdevice the call goes through. */
typedef struct List {
        const NvrmHalQueue *via;
        NvrmChannel *channels[NVRM_CHANNELS_MAX];
        uint32_t n;
} List;

/* -ENOENT of a call may mean the client or subdevice that it goes through, and not the channels that it names. */
static bool is_reachable(const NvrmHalQueue *via) {
        NvrmGpuId id = {};

        int r = nvrm_control(via->ioctl, via->fd, via->client, via->subdevice, NVRM_CMD_GPU_GET_ID, &id, sizeof(id));
        return r != -ENOENT && r != -ESTALE;
}

static int list_call(const List *l, bool stop) {
        NvrmDisableChannels a = {.disable = stop, .n = l->n};

        for (uint32_t i = 0; i < l->n; i++) {
                a.clients[i] = l->channels[i]->client;
                a.channels[i] = l->channels[i]->object;
        }
        int r = nvrm_control(l->via->ioctl, l->via->fd, l->via->client, l->via->subdevice, NVRM_CMD_DISABLE_CHANNELS,
                        &a, sizeof(a));
        return r == -ENOENT && !is_reachable(l->via) ? -ESTALE : r;
}

static int channel_call(const NvrmHalQueue *via, NvrmChannel *c, bool stop) {
        const List l = {.via = via, .channels = {c}, .n = 1};

        int r = list_call(&l, stop);
        c->lost |= r == -ENOENT || r == -ENODEV;
        return c->lost ? 0 : r;
}

/* Sets a channel in an unknown state, which was disabled once at most, to a state. It may stand still and count as
 * enabled, so that enabling it alone does nothing. */
static int channel_restore_to(const NvrmHalQueue *via, NvrmChannel *c, bool stopped) {
        c->unsure = true;
        int r = channel_call(via, c, false);
        if (r >= 0 && !c->lost)
                r = channel_call(via, c, true);
        if (r >= 0 && !stopped && !c->lost)
                r = channel_call(via, c, false);
        if (r >= 0 && !c->lost) {
                c->stopped = stopped;
                c->unsure = false;
        }
        return r;
}

static int channel_restore(const NvrmHalQueue *via, NvrmChannel *c) {
        return channel_restore_to(via, c, c->stopped);
}

static void list_restore(const List *l) {
        for (uint32_t i = 0; i < l->n; i++)
                (void) channel_restore(l->via, l->channels[i]);
}

/* Returns whether any was dropped. */
static bool list_drop_lost(List *l) {
        uint32_t before = l->n;

        l->n = 0;
        for (uint32_t i = 0; i < before; i++)
                if (!l->channels[i]->lost)
                        l->channels[l->n++] = l->channels[i];
        return l->n < before;
}

/* Changes all channels of the list, or none. */
static int list_try(List *l, bool stop) {
        int r = l->n > 0 ? list_call(l, stop) : 0;

        if (r < 0 && r != -ESTALE)
                list_restore(l);
        /* The subdevice may have gone after some of the channels were changed. */
        for (uint32_t i = 0; r == -ESTALE && i < l->n; i++)
                l->channels[i]->unsure = true;
        for (uint32_t i = 0; r >= 0 && i < l->n; i++)
                l->channels[i]->stopped = stop;
        return r;
}

/* A channel that could not be restored may be disabled already. Disabled once more, it would stay so for ever. */
static bool list_is_unsure(const List *l) {
        bool unsure = false;

        for (uint32_t i = 0; i < l->n; i++)
                unsure |= l->channels[i]->unsure;
        return unsure;
}

/* Changes all channels of the list that are not lost, or none, and empties the list. */
static int list_apply(List *l, bool stop) {
        int r = list_try(l, stop);

        if ((r == -ENOENT || r == -ENODEV) && list_drop_lost(l))
                r = list_is_unsure(l) ? -EAGAIN : list_try(l, stop);
        l->n = 0;
        return r;
}

static bool channel_is_due(const NvrmChannel *c, bool stop) {
        return !c->lost && !c->leaving && (c->unsure || c->stopped != stop);
}

static bool is_reached_alike(const NvrmHalQueue *a, const NvrmHalQueue *b) {
        return a->fd == b->fd && a->client == b->client && a->subdevice == b->subdevice;
}

static int list_add(List *l, const NvrmHalQueue *q, NvrmChannel *c, bool stop) {
        int r = 0;

        if (c->unsure)
                r = channel_restore(q, c);
        if (r < 0)
                return r;
        if (!channel_is_due(c, stop))
                return 0;
        if (l->n > 0 && (l->n == ELEMENTSOF(l->channels) || !is_reached_alike(l->via, q)))
                r = list_apply(l, stop);
        l->via = q;
        l->channels[l->n++] = c;
        return r;
}

/* --- queues --- */

static int queue_add(List *l, const NvrmHalQueue *q, bool stop) {
        int r = 0;

        for (NvrmChannel *c = q->channels; c && r >= 0; c = c->next)
                if (channel_is_due(c, stop))
                        r = list_add(l, q, c, stop);
        return r;
}

/* Brings all queues of the batch to `held`, or with `back`, for a rollback, those whose own `held` has that value. A
 * queue may be in the batch twice. */
static int queues_apply(HalQueue *const *queues, size_t n, bool held, bool back) {
        List l = {};
        int r = 0;

        for (size_t i = 0; i < n; i++)
                queues[i]->changed = false;
        for (size_t i = 0; i < n && r >= 0; i++) {
                if (queues[i]->changed || (back && queues[i]->held != held))
                        continue;
                queues[i]->changed = true;
                r = queue_add(&l, nvrm_queue(queues[i]), held);
        }
        return r < 0 ? r : list_apply(&l, held);
}

/* Calling again does not help with these errors. */
static void note_failure(NvrmHalDevice *d, int r) {
        if (r != -EIO && r != -ETIME && r != -EACCES && r != -EOPNOTSUPP)
                return;
        if (d->level > LEVEL_GATE)
                d->level = LEVEL_GATE;
        d->degraded = true;
        d->error = r;
}

static int nvrm_batch(HalQueue *const *queues, size_t n, bool held) {
        if (n == 0)
                return 0;

        NvrmHalDevice *d = nvrm_queue(queues[0])->device;
        int r = queues_apply(queues, n, held, false);
        if (r < 0) {
                note_failure(d, r);
                (void) queues_apply(queues, n, !held, true);
                return r;
        }
        for (size_t i = 0; i < n; i++)
                queues[i]->held = held;
        return 0;
}

static int nvrm_hold(HalQueue *const *queues, size_t n) {
        return nvrm_batch(queues, n, true);
}

static int nvrm_release(HalQueue *const *queues, size_t n) {
        return nvrm_batch(queues, n, false);
}

/* A refused call for one channel has changed nothing, except after -ETIME and -EAGAIN. */
int nvrm_hal_follow(NvrmHalQueue *q, NvrmChannel *c) {
        if (!channel_is_due(c, q->hal.held))
                return 0;
        int r = c->unsure ? channel_restore(q, c) : 0;
        if (r < 0 || !channel_is_due(c, q->hal.held))
                return r;
        r = channel_call(q, c, q->hal.held);
        if (r >= 0 && !c->lost)
                c->stopped = q->hal.held;
        c->unsure = r == -ETIME || r == -EAGAIN;
        return r;
}

int nvrm_hal_let_go_one(const NvrmHalQueue *q, NvrmChannel *c) {
        if (!channel_is_due(c, false))
                return 0;
        if (c->unsure)
                return channel_restore_to(q, c, false);
        int r = channel_call(q, c, false);
        if (r >= 0 && !c->lost)
                c->stopped = false;
        return r;
}

int nvrm_hal_let_go(NvrmHalQueue *q) {
        int result = 0;

        q->hal.held = false;
        for (NvrmChannel *c = q->channels; c; c = c->next) {
                int r = nvrm_hal_let_go_one(q, c);
                if (r < 0)
                        result = r;
        }
        return result;
}

const HalOps hal_nvrm_ops = {
                .name = "nvrm",
                .hold = nvrm_hold,
                .release = nvrm_release,
};
