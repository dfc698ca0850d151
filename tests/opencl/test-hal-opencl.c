/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The HAL's conformance suite over the OpenCL backend, with real kernels
 *
 * Each queue has a submitter of its own, as an application has a thread: it may stand at the gate while the suite goes
 * on. Every piece of work is one kernel that adds one to an element of its own: the proof that it ran, and how often.
 */

#include <pthread.h>
#include <time.h>

#include "cl-test.h"
#include "common/macro.h"
#include "common/time-util.h"
#include "tests/lib/hal-suite.h"
#include "tests/lib/unit.h"
#include "tests/opencl/hal-opencl.h"

#define WORK_MAX 8192U

typedef struct Submitter {
        OpenclHalQueue q;
        pthread_t thread;
        pthread_mutex_t lock;
        pthread_cond_t more;
        bool ending;
        uint64_t n;
        cl_command_queue queue;
        cl_mem proof;
        cl_kernel kernel;
        atomic_uint times[WORK_MAX];
        _Atomic uint64_t n_done;
} Submitter;

static Submitter *submitter(HalQueue *q) {
        OpenclHalQueue *hal = container_of(q, OpenclHalQueue, hal);
        return container_of(hal, Submitter, q);
}

static void compute(Submitter *s, uint64_t n) {
        const size_t offset = n, one = 1;
        cl_int proof;

        CHECK_CL(clEnqueueNDRangeKernel(s->queue, s->kernel, 1, &offset, &one, NULL, 0, NULL, NULL));
        CHECK_CL(clEnqueueReadBuffer(
                        s->queue, s->proof, CL_TRUE, n * sizeof(proof), sizeof(proof), &proof, 0, NULL, NULL));
        atomic_store(&s->times[n], (unsigned) proof);
        atomic_fetch_add(&s->n_done, 1);
}

static void *submit_all(void *userdata) {
        Submitter *s = userdata;
        for (uint64_t n = 0;; n++) {
                (void) pthread_mutex_lock(&s->lock);
                while (n == s->n && !s->ending)
                        (void) pthread_cond_wait(&s->more, &s->lock);
                bool end = n == s->n;
                (void) pthread_mutex_unlock(&s->lock);
                if (end)
                        return NULL;
                opencl_hal_enter(&s->q);
                compute(s, n);
                opencl_hal_leave(&s->q, 1);
        }
}

static void *device_new(void) {
        test_open();
        return &t;
}

static void device_free(void *device) {
        test_close();
}

static HalQueue *queue_new(void *device) {
        static const cl_int zeros[WORK_MAX];
        const cl_int k = 1;
        cl_int r;

        Submitter *s = calloc(1, sizeof(*s));
        CHECK(s);
        opencl_hal_init(&s->q);
        (void) pthread_mutex_init(&s->lock, NULL);
        (void) pthread_cond_init(&s->more, NULL);
        s->queue = queue_make(0);
        s->proof = clCreateBuffer(t.context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof(zeros),
                        (void *) (uintptr_t) zeros, &r);
        CHECK_CL(r);
        s->kernel = clCreateKernel(t.program, "next", &r);
        CHECK_CL(r);
        CHECK_CL(clSetKernelArg(s->kernel, 0, sizeof(s->proof), &s->proof));
        CHECK_CL(clSetKernelArg(s->kernel, 1, sizeof(k), &k));
        CHECK(pthread_create(&s->thread, NULL, submit_all, s) == 0);
        return &s->q.hal;
}

static void queue_free(HalQueue *q) {
        Submitter *s = submitter(q);

        CHECK(hal_opencl_ops.release(&q, 1) == 0);
        (void) pthread_mutex_lock(&s->lock);
        s->ending = true;
        (void) pthread_cond_signal(&s->more);
        (void) pthread_mutex_unlock(&s->lock);
        CHECK(pthread_join(s->thread, NULL) == 0);
        CHECK_CL(clReleaseKernel(s->kernel));
        CHECK_CL(clReleaseMemObject(s->proof));
        CHECK_CL(clReleaseCommandQueue(s->queue));
        free(s);
}

static uint64_t submit(HalQueue *q, uint64_t duration_ns) {
        Submitter *s = submitter(q);

        (void) pthread_mutex_lock(&s->lock);
        uint64_t n = s->n++;
        CHECK(n < WORK_MAX);
        (void) pthread_cond_signal(&s->more);
        (void) pthread_mutex_unlock(&s->lock);
        return n;
}

/* The device is real: its time passes by itself. */
static void run(void *device, uint64_t ns) {
        struct timespec ts = ns_to_timespec(ns);
        (void) nanosleep(&ts, NULL);
}

static unsigned times_done(HalQueue *q, uint64_t n) {
        return atomic_load(&submitter(q)->times[n]);
}

static uint64_t progress(HalQueue *q) {
        return atomic_load(&submitter(q)->n_done);
}

static const HalDriver opencl_driver = {
                .ops = &hal_opencl_ops,
                .max_level = LEVEL_GATE,
                .inherit = HAL_INHERIT_RUN,
                .device_new = device_new,
                .device_free = device_free,
                .queue_new = queue_new,
                .queue_free = queue_free,
                .submit = submit,
                .run = run,
                .times_done = times_done,
                .progress = progress,
                .backlog = opencl_hal_backlog,
};

/* Level 1 promises that no work submitted after a hold starts; the suite tests that for higher levels only. */
static void test_gate(void **state) {
        void *device = device_new();
        HalQueue *q = queue_new(device);
        uint64_t backlog;

        assert_int_equal(hal_opencl_ops.hold(&q, 1), 0);
        for (uint64_t n = 0; n < 10; n++)
                assert_int_equal(submit(q, 1), n);
        while (atomic_load(&submitter(q)->q.waiters) == 0)
                run(device, NSEC_PER_MSEC);
        assert_int_equal(progress(q), 0);
        assert_int_equal(opencl_hal_backlog(q, &backlog), 0);
        assert_int_equal(backlog, 0);

        assert_int_equal(hal_opencl_ops.release(&q, 1), 0);
        while (progress(q) < 10)
                run(device, NSEC_PER_MSEC);
        for (uint64_t n = 0; n < 10; n++)
                assert_int_equal(times_done(q, n), 1);
        queue_free(q);
        device_free(device);
}

int main(int argc, char *argv[]) {
        static const HalDriver *const drivers[] = {&opencl_driver, NULL};
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_gate)};

        if (hal_suite_main(drivers, argc, argv) != 0)
                return EXIT_FAILURE;
        return argc > 1 ? EXIT_SUCCESS : cmocka_run_group_tests(tests, NULL, NULL);
}
