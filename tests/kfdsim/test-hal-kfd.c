/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The HAL's conformance suite over the KFD backend, on simulated GPUs
 *
 * Queues and work are the AQL client's. The backend learns of a queue from this program's own ioctl(), which calls pass
 * on their way to the driver.
 */

#undef _FILE_OFFSET_BITS

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "aql.h"
#include "common/macro.h"
#include "common/time-util.h"
#include "hal/kfd-abi.h"
#include "hal/kfd.h"
#include "kfdsim.h"
#include "tests/lib/deadline.h"
#include "tests/lib/hal-suite.h"
#include "tests/lib/unit.h"

#define PACKETS        16384U
#define DOORBELLS_SIZE 8192U
#define QUEUES_MAX     16U
#define SCALE          4U
#define LONG_NS        (5 * NSEC_PER_MSEC)
#define RING_EVERY_NS  (500 * NSEC_PER_USEC)
#define INTERRUPTS     100 /* more than the backend puts up with */

typedef struct TestQueue {
        KfdHalQueue q;
        AqlQueue *aql;
        uint64_t n;
        uint64_t durations[PACKETS];
} TestQueue;

static AqlDevice device;
static KfdHalDevice hal_device;
static KfdCreateQueue created;
static int created_fd;
static TestQueue *test_queues[QUEUES_MAX];
static unsigned n_queues;

static int next_ioctl(int fd, unsigned long request, ...) {
        static int (*next)(int, unsigned long, ...);
        va_list ap;

        va_start(ap, request);
        void *arg = va_arg(ap, void *);
        va_end(ap);
        if (!next)
                next = (int (*)(int, unsigned long, ...))(uintptr_t) dlsym(RTLD_NEXT, "ioctl");
        return next(fd, request, arg);
}

_public_
int ioctl(int fd, unsigned long request, ...) {
        va_list ap;

        va_start(ap, request);
        void *arg = va_arg(ap, void *);
        va_end(ap);
        int r = next_ioctl(fd, request, arg);
        if (r >= 0 && kfd_ioctl_nr(request) == KFD_NR_CREATE_QUEUE) {
                memcpy(&created, arg, MIN(sizeof(created), (size_t) _IOC_SIZE(request)));
                created_fd = fd;
        }
        return r;
}

static TestQueue *test_queue(HalQueue *q) {
        KfdHalQueue *kfd = container_of(q, KfdHalQueue, hal);
        return container_of(kfd, TestQueue, q);
}

static void *device_new(void) {
        hal_device = (KfdHalDevice){.level = LEVEL_INTERRUPT};
        assert_int_equal(aql_device_open(0, &device), 0);
        return &device;
}

static void device_free(void *unused) {
        aql_device_close(&device);
}

static HalQueue *queue_new(void *unused) {
        TestQueue *t = calloc(1, sizeof(*t));
        assert_non_null(t);
        assert_int_equal(aql_queue_create(&device, &(AqlOptions){.n_packets = PACKETS}, &t->aql), 0);

        assert_in_range(n_queues, 0, QUEUES_MAX - 1);
        test_queues[n_queues++] = t;
        kfd_hal_init(&t->q, &hal_device);
        t->q.ioctl = next_ioctl;
        t->q.fd = created_fd;
        t->q.id = created.queue_id;
        t->q.type = created.queue_type;
        t->q.ring = created.ring_base_address;
        t->q.ring_size = created.ring_size;
        t->q.percentage = created.queue_percentage;
        t->q.priority = created.queue_priority;
        t->q.write_index = (const _Atomic uint64_t *) (uintptr_t) created.write_pointer_address;
        t->q.read_index = (const _Atomic uint64_t *) (uintptr_t) created.read_pointer_address;
        char *page = mmap(NULL, DOORBELLS_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, created_fd,
                        (off_t) (created.doorbell_offset & ~(uint64_t) (DOORBELLS_SIZE - 1)));
        assert_ptr_not_equal(page, MAP_FAILED);
        t->q.doorbell = (_Atomic uint64_t *) (void *) (page + (created.doorbell_offset & (DOORBELLS_SIZE - 1)));
        return &t->q.hal;
}

static void queue_free(HalQueue *q) {
        TestQueue *t = test_queue(q);

        for (unsigned i = 0; i < n_queues; i++)
                if (test_queues[i] == t)
                        test_queues[i] = test_queues[--n_queues];
        (void) munmap((void *) ((uintptr_t) t->q.doorbell & ~(uintptr_t) 4095), DOORBELLS_SIZE);
        assert_int_equal(aql_queue_destroy(t->aql), 0);
        free(t);
}

static uint64_t work_left(const TestQueue *t) {
        uint64_t work = 0;

        for (uint64_t n = aql_queue_executed(t->aql); !t->q.hal.held && n < t->n; n++)
                work += t->durations[n];
        return work;
}

static uint64_t submit(HalQueue *q, uint64_t duration_ns) {
        TestQueue *t = test_queue(q);

        assert_in_range(t->n, 0, PACKETS - 1);
        assert_int_equal(aql_dispatch(t->aql, duration_ns * SCALE, NULL), 0);
        aql_ring(t->aql);
        t->durations[t->n] = duration_ns;
        return t->n++;
}

/* The owner of the queues has to do this from time to time: a packet that the device executes looks like one that is
 * not written, so a release may have announced only the packets before it. Returns whether all is announced. */
static bool ring_rest(void) {
        bool all = true;

        for (unsigned i = 0; i < n_queues; i++)
                all = (test_queues[i]->q.hal.held || kfd_hal_ring_rest(&test_queues[i]->q)) && all;
        return all;
}

static void let_pass(uint64_t ns) {
        struct timespec ts = ns_to_timespec(MIN(ns, RING_EVERY_NS));

        (void) nanosleep(&ts, NULL);
}

/* Simulated time is real time, and the machine may be busy: so this waits for the work that the GPU should finish in
 * this time. Queues of one process run one after the other, each until it is empty: so to see progress of all, the time
 * has to be long enough for all of them together. */
static void run(void *unused, uint64_t ns) {
        uint64_t end = now_ns() + (ns >= LONG_NS ? ns * n_queues : ns) * SCALE, work = 0;

        for (uint64_t now; (now = now_ns()) < end; (void) ring_rest())
                let_pass(end - now);
        for (unsigned i = 0; i < n_queues; i++)
                work += work_left(test_queues[i]);
        if (work > ns)
                return;
        for (uint64_t until = now_ns() + TEST_DEADLINE_NS; !ring_rest() && now_ns() < until;)
                let_pass(RING_EVERY_NS);
        for (unsigned i = 0; i < n_queues; i++)
                if (!test_queues[i]->q.hal.held)
                        assert_int_equal(aql_queue_wait(test_queues[i]->aql, now_ns() + TEST_DEADLINE_NS), 0);
}

/* In order, so those executed are the first ones. */
static unsigned times_done(HalQueue *q, uint64_t n) {
        AqlReport r = aql_queue_report(test_queue(q)->aql);

        assert_int_equal(r.n_doubled, 0);
        assert_int_equal(r.n_late, 0);
        assert_int_equal(r.n_lost, 0);
        return n < r.n_executed;
}

static uint64_t progress(HalQueue *q) {
        return aql_queue_executed(test_queue(q)->aql);
}

static void inject(void *unused, unsigned after, int error) {
        char text[64] = "";

        if (error < 0)
                (void) snprintf(text, sizeof(text), "%d:%d:%d:%u", KFD_NR_UPDATE_QUEUE,
                                error == -EAGAIN ? EINTR : -error, error == -EAGAIN ? INTERRUPTS : 1, after);
        assert_int_equal(kfdsim_fail(text), 0);
}

/* Reads the write index first, so that packets which end in between do not count. */
static int backlog(const HalQueue *hal, uint64_t *ret) {
        const KfdHalQueue *q = (const KfdHalQueue *) hal;

        if (q->type != KFD_QUEUE_COMPUTE_AQL || !q->write_index || !q->read_index)
                return -EOPNOTSUPP;
        uint64_t write = atomic_load(q->write_index), read = atomic_load(q->read_index);
        *ret = ns_sub(write, read);
        return 0;
}

static const HalDriver kfd_driver = {
                .ops = &hal_kfd_ops,
                .max_level = LEVEL_INTERRUPT,
                .inherit = HAL_INHERIT_RUN,
                .device_new = device_new,
                .device_free = device_free,
                .queue_new = queue_new,
                .queue_free = queue_free,
                .submit = submit,
                .run = run,
                .times_done = times_done,
                .progress = progress,
                .backlog = backlog,
                .inject = inject,
};

int main(int argc, char *argv[]) {
        static const HalDriver *const drivers[] = {&kfd_driver, NULL};

        return kfdsim_fail ? hal_suite_main(drivers, argc, argv) : EXIT_FAILURE;
}
