/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A simulated device in memory: see hal-fake.h for what it models
 */

#include <pthread.h>

#include "common/macro.h"
#include "tests/lib/hal-fake.h"

typedef struct FakeQueue {
        HalQueue hal;
        FakeDevice *device;
        struct FakeQueue *next;

        FakeDispatch *dispatches;
        uint64_t n, n_allocated;
        uint64_t n_finished;
        uint64_t progress_ns;
        bool stopped; /* what the hardware does, as opposed to what `held` says */
} FakeQueue;

struct FakeDevice {
        pthread_mutex_t lock;
        FakeQueue *queues;
        uint64_t now_ns;
        HalCosts costs; /* what a call takes */
        unsigned fail_after;
        int fail_error;
};

static FakeQueue *fake_queue(const HalQueue *q) {
        return container_of((HalQueue *) q, FakeQueue, hal);
}

static void unlockp(pthread_mutex_t **lock) {
        (void) pthread_mutex_unlock(*lock);
}

#define LOCKED(d)                                                                                                      \
        _cleanup_(unlockp)                                                                                             \
        _unused_ pthread_mutex_t *_locked = &(d)->lock;                                                                \
        (void) pthread_mutex_lock(_locked)

/* --- the device --- */

FakeDevice *fake_device_new(void) {
        FakeDevice *d = calloc(1, sizeof(FakeDevice));

        if (d)
                (void) pthread_mutex_init(&d->lock, NULL);
        return d;
}

FakeDevice *fake_device_free(FakeDevice *d) {
        if (d)
                (void) pthread_mutex_destroy(&d->lock);
        free(d);
        return NULL;
}

void fake_device_set_costs(FakeDevice *d, const HalCosts *costs) {
        LOCKED(d);
        d->costs = *costs;
}

void fake_device_fail(FakeDevice *d, unsigned after, int error) {
        LOCKED(d);
        d->fail_after = after;
        d->fail_error = error;
}

uint64_t fake_device_now(FakeDevice *d) {
        LOCKED(d);
        return d->now_ns;
}

static void queue_work(FakeQueue *q, uint64_t now_ns, uint64_t ns) {
        uint64_t left = ns;

        while (left > 0 && q->n_finished < q->n) {
                FakeDispatch *p = &q->dispatches[q->n_finished];
                uint64_t step = MIN(left, p->duration_ns - p->done_ns);

                p->done_ns += step;
                q->progress_ns += step;
                left -= step;
                if (p->done_ns < p->duration_ns)
                        return;
                p->finished_ns = now_ns + (ns - left);
                p->times++;
                q->n_finished++;
        }
}

static void device_run(FakeDevice *d, uint64_t ns) {
        for (FakeQueue *q = d->queues; q; q = q->next)
                if (!q->stopped)
                        queue_work(q, d->now_ns, ns);
        d->now_ns += ns;
}

void fake_device_run(FakeDevice *d, uint64_t ns) {
        LOCKED(d);
        device_run(d, ns);
}

/* --- queues --- */

HalQueue *fake_queue_new(FakeDevice *d) {
        FakeQueue *q = calloc(1, sizeof(FakeQueue));
        if (!q)
                return NULL;

        LOCKED(d);
        *q = (FakeQueue){.hal.ops = &hal_fake_ops, .device = d, .next = d->queues};
        d->queues = q;
        return &q->hal;
}

HalQueue *fake_queue_free(HalQueue *q) {
        if (!q)
                return NULL;

        FakeQueue *f = fake_queue(q);
        LOCKED(f->device);
        FakeQueue **link = &f->device->queues;
        while (*link != f)
                link = &(*link)->next;
        *link = f->next;
        free(f->dispatches);
        free(f);
        return NULL;
}

uint64_t fake_queue_submit(HalQueue *q, uint64_t duration_ns) {
        FakeQueue *f = fake_queue(q);
        LOCKED(f->device);

        if (f->n == f->n_allocated) {
                uint64_t n = MAX(f->n_allocated * 2, UINT64_C(64));
                FakeDispatch *p = reallocarray(f->dispatches, n, sizeof(FakeDispatch));
                if (!p)
                        return UINT64_MAX;
                f->dispatches = p;
                f->n_allocated = n;
        }
        f->dispatches[f->n] = (FakeDispatch){.duration_ns = MAX(duration_ns, UINT64_C(1))};
        return f->n++;
}

FakeDispatch fake_queue_dispatch(HalQueue *q, uint64_t n) {
        FakeQueue *f = fake_queue(q);
        LOCKED(f->device);

        return n < f->n ? f->dispatches[n] : (FakeDispatch){};
}

uint64_t fake_queue_progress(HalQueue *q) {
        FakeQueue *f = fake_queue(q);
        LOCKED(f->device);

        return f->progress_ns;
}

/* --- the backend --- */

/* Does what a driver does for one queue. All queues go on during the call, this one included. */
static int fake_apply(HalQueue *q, bool held) {
        FakeQueue *f = fake_queue(q);
        FakeDevice *d = f->device;
        LOCKED(d);

        if (d->fail_error < 0 && d->fail_after-- == 0)
                return TAKE_GENERIC(d->fail_error, 0);
        device_run(d, held ? d->costs.hold_ns : d->costs.release_ns);
        f->stopped = held;
        return 0;
}

static int fake_hold(HalQueue *const *queues, size_t n) {
        return hal_apply_each(queues, n, true, fake_apply);
}

static int fake_release(HalQueue *const *queues, size_t n) {
        return hal_apply_each(queues, n, false, fake_apply);
}

const HalOps hal_fake_ops = {
                .name = "fake",
                .hold = fake_hold,
                .release = fake_release,
};

int fake_queue_backlog(const HalQueue *q, uint64_t *ret) {
        const FakeQueue *f = fake_queue(q);
        LOCKED(f->device);

        *ret = f->n - f->n_finished;
        return 0;
}
