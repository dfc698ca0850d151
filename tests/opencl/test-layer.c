/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The layer over a simulated runtime: what it does at the runtime, to the last reference, and where it must not wait
 */

#include <CL/cl_layer.h>
#include <pthread.h>
#include <time.h>

#include "shim/opencl-launch.h"
#include "shim/opencl-track.h"
#include "sim-opencl.h"
#include "tests/lib/unit.h"

static const cl_icd_dispatch *cl;              /* as the loader calls us */
static const cl_icd_dispatch *other_tables[2]; /* of other loaders; never freed, as in a real one */

static int setup_group(void **state) {
        cl_uint n = 0;
        assert_int_equal(clInitLayer(OPENCL_N_ENTRIES, &sim_dispatch, &n, &cl), CL_SUCCESS);
        assert_int_equal(n, OPENCL_N_ENTRIES);
        return 0;
}

static int setup(void **state) {
        sim_reset();
        return 0;
}

/* Whatever a test did: nothing of ours is left at the runtime or at the library. */
static int teardown(void **state) {
        assert_int_equal(sim.n.events_alive, 0);
        assert_int_equal(sim.n.queues_alive, 0);
        assert_int_equal(library.queues_alive, 0);
        assert_int_equal(opencl_n_tracked, 0);
        return 0;
}

static cl_command_queue queue(cl_command_queue_properties properties) {
        cl_command_queue q = cl->clCreateCommandQueue(NULL, sim_device, properties, NULL);
        assert_non_null(q);
        return q;
}

static cl_int launch(cl_command_queue q, cl_uint n, const cl_event *waits, cl_event *event) {
        return cl->clEnqueueNDRangeKernel(q, NULL, 1, NULL, NULL, NULL, n, waits, event);
}

static void launches(cl_command_queue q, int n) {
        for (int i = 0; i < n; i++)
                assert_int_equal(launch(q, 0, NULL, NULL), CL_SUCCESS);
}

static void release(cl_command_queue q) {
        assert_int_equal(cl->clReleaseCommandQueue(q), CL_SUCCESS);
}

static cl_uint references(cl_event e) {
        cl_uint n;
        assert_int_equal(cl->clGetEventInfo(e, CL_EVENT_REFERENCE_COUNT, sizeof(n), &n, NULL), CL_SUCCESS);
        return n;
}

static void nap(void) {
        const struct timespec ts = {.tv_nsec = 500000};
        (void) nanosleep(&ts, NULL);
}

/* --- the table --- */

static void test_layer_info(void **state) {
        cl_layer_api_version version = 0;
        char name[32];
        size_t n = 0;

        assert_int_equal(clGetLayerInfo(CL_LAYER_API_VERSION, sizeof(version), &version, &n), CL_SUCCESS);
        assert_int_equal(version, CL_LAYER_API_VERSION_100);
        assert_int_equal(n, sizeof(version));
        assert_int_equal(clGetLayerInfo(CL_LAYER_NAME, sizeof(name), name, NULL), CL_SUCCESS);
        assert_string_equal(name, "xsched");
        assert_int_equal(clGetLayerInfo(CL_LAYER_NAME, 2, name, NULL), CL_INVALID_VALUE);
        assert_int_equal(clGetLayerInfo(0, sizeof(name), name, NULL), CL_INVALID_VALUE);
}

/* A loader's table may be shorter than ours, or longer; what is not hooked is passed through, and no hook appears from nothing. */
static void test_table_lengths(void **state) {
        struct {
                cl_icd_dispatch known;
                OpenclFunction later[3];
        } target = {.known = sim_dispatch,
                        .later = {(OpenclFunction) setup, (OpenclFunction) teardown, NULL}};
        const cl_icd_dispatch *d, *unset = NULL;
        cl_uint n = 0;

        /* Of the time of OpenCL 1.0: no entry behind that for the kernel launch. */
        cl_uint old = OPENCL_ENTRY(clEnqueueNDRangeKernel) + 1;
        assert_int_equal(clInitLayer(old, &sim_dispatch, &n, &other_tables[0]), CL_SUCCESS);
        d = other_tables[0];
        assert_int_equal(n, old);
        assert_ptr_not_equal(d->clEnqueueNDRangeKernel, sim_dispatch.clEnqueueNDRangeKernel);
        assert_ptr_equal(d->clFlush, sim_dispatch.clFlush);

        assert_int_equal(clInitLayer(OPENCL_N_ENTRIES + 3, &target.known, &n, &other_tables[1]), CL_SUCCESS);
        d = other_tables[1];
        assert_int_equal(n, OPENCL_N_ENTRIES + 3);
        for (size_t i = 0; i < 3; i++)
                assert_ptr_equal(((const OpenclFunction *) (d + 1))[i], target.later[i]);
        assert_null(d->clEnqueueTask); /* the runtime has none */

        assert_int_equal(clInitLayer(OPENCL_N_ENTRIES, d, &n, &unset), CL_INVALID_VALUE); /* on itself */
        assert_int_equal(clInitLayer(0, &sim_dispatch, &n, &unset), CL_INVALID_VALUE);
        assert_int_equal(clInitLayer(10, NULL, &n, &unset), CL_INVALID_VALUE);
        assert_null(unset);
}

/* --- launches --- */

static void test_open_gate_does_nothing(void **state) {
        cl_command_queue q = queue(0);
        cl_event e = NULL;

        SimCounters before = sim.n;
        launches(q, 10);
        assert_int_equal(launch(q, 0, NULL, &e), CL_SUCCESS);
        assert_int_equal(sim.n.enqueues, before.enqueues + 11);
        assert_int_equal(sim.n.queries + sim.n.callbacks + sim.n.flushes + sim.n.retains, 0);
        assert_int_equal(e->refs, 2); /* the application's and the device's */
        assert_int_equal(library.launches, 11);
        sim_complete_to(11);
        assert_int_equal(cl->clReleaseEvent(e), CL_SUCCESS);
        release(q);
}

static void test_tracked(void **state) {
        cl_command_queue q = queue(0);
        cl_event e = NULL;

        library.track = true;
        launches(q, 50);
        assert_int_equal(launch(q, 0, NULL, &e), CL_SUCCESS);
        launches(q, 49);
        assert_int_equal(sim.n.callbacks, 1); /* one sentinel, however many launches */
        assert_int_equal(references(e), 1);
        assert_int_equal(e->refs, 3);

        sim_complete_to(40); /* the sentinel was on the first: it finds all that are complete, and is armed anew */
        assert_in_range(library.completed, 1, 40);
        assert_int_equal(sim.n.callbacks, 2);
        sim_complete_to(100);
        assert_int_equal(library.completed, 100);
        assert_int_equal(references(e), 1);
        assert_int_equal(cl->clReleaseEvent(e), CL_SUCCESS);
        release(q);
}

static void test_failed_launch(void **state) {
        cl_command_queue q = queue(0);
        cl_event e = (cl_event) &q;

        library.track = true;
        sim.fail_next = CL_OUT_OF_RESOURCES;
        assert_int_equal(launch(q, 0, NULL, NULL), CL_OUT_OF_RESOURCES);
        sim.fail_next = CL_INVALID_WORK_DIMENSION;
        assert_int_equal(launch(q, 3, NULL, &e), CL_INVALID_WORK_DIMENSION);
        assert_ptr_equal(e, (cl_event) &q);
        assert_int_equal(library.completed, 2);
        assert_int_equal(library.last->outstanding, 0);
        release(q);
}

static void test_unknown_queue_passes(void **state) {
        cl_command_queue q = sim_dispatch.clCreateCommandQueue(NULL, sim_device, 0, NULL);

        library.track = true;
        launches(q, 3);
        assert_int_equal(library.launches, 0);
        sim_complete_to(3);
        release(q);
}

static void test_errno(void **state) {
        cl_command_queue q = queue(0);
        cl_event e;

        library.track = true;
        library.limit = 1000;
        for (int i = 0; i < 200; i++) {
                errno = 77;
                assert_int_equal(launch(q, 0, NULL, i % 2 ? &e : NULL), CL_SUCCESS);
                assert_int_equal(errno, 77);
                if (i % 2)
                        assert_int_equal(cl->clReleaseEvent(e), CL_SUCCESS);
                if (i % 7 == 0)
                        sim_complete_to(i);
        }
        assert_int_equal(cl->clEnqueueReadBuffer(q, NULL, CL_TRUE, 0, 0, NULL, 0, NULL, NULL), CL_SUCCESS);
        assert_int_equal(library.completed, 201);
        release(q);
}

static void test_blocking(void **state) {
        cl_command_queue q = queue(0);

        library.track = true;
        launches(q, 5);
        int events = sim.n.events_alive;
        assert_int_equal(cl->clEnqueueReadBuffer(q, NULL, CL_TRUE, 0, 0, NULL, 0, NULL, NULL), CL_SUCCESS);
        assert_int_equal(events, 5);
        assert_int_equal(library.completed, 6); /* no callback was needed */
        sim.fail_next = CL_INVALID_VALUE;
        assert_int_equal(cl->clEnqueueReadBuffer(q, NULL, CL_TRUE, 0, 0, NULL, 0, NULL, NULL),
                        CL_INVALID_VALUE);
        assert_int_equal(library.completed, 7);
        release(q);
}

/* Callbacks may come as late as they like: who waits himself, knows himself. */
static void test_application_learns_first(void **state) {
        cl_command_queue q = queue(0);
        cl_event e;

        library.track = true;
        sim.late_callbacks = true;
        launches(q, 5);
        assert_int_equal(cl->clFinish(q), CL_SUCCESS);
        assert_int_equal(library.completed, 5);

        launches(q, 5);
        assert_int_equal(launch(q, 0, NULL, &e), CL_SUCCESS);
        sim_complete_to(10);
        assert_int_equal(cl->clWaitForEvents(1, &e), CL_SUCCESS);
        assert_int_equal(library.completed, 11);
        assert_int_equal(cl->clReleaseEvent(e), CL_SUCCESS);
        sim_call_back();
        assert_int_equal(library.completed, 11);
        release(q);
}

static void test_out_of_order_completion(void **state) {
        cl_command_queue q = queue(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);

        library.track = true;
        launches(q, 80);
        for (int i = 79; i > 0; i--)
                sim_end(i, CL_COMPLETE);
        assert_int_equal(library.completed, 0); /* the sentinel is on the one that is left */
        sim_end(0, CL_COMPLETE);
        assert_int_equal(library.completed, 80);
        release(q);
}

/* A runtime that forgets to call back for failed commands does not cost us the queue. */
static void test_forgotten_callback(void **state) {
        cl_command_queue q = queue(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);

        library.track = true;
        sim.forget_failed = true;
        launches(q, 3);
        sim_end(0, -14);
        assert_int_equal(library.completed, 0);
        assert_int_equal(cl->clFinish(q), CL_SUCCESS);
        assert_int_equal(library.completed, 3);

        launches(q, 1);
        sim_complete_to(sim.n_events);
        assert_int_equal(library.completed, 4); /* by a new sentinel */
        release(q);
}

/* --- the bound --- */

typedef struct Bounded {
        cl_command_queue q;
        int n;
        atomic_int submitted;
} Bounded;

static void *launch_bounded(void *userdata) {
        Bounded *b = userdata;
        for (int i = 0; i < b->n; i++) {
                launches(b->q, 1);
                atomic_fetch_add(&b->submitted, 1);
        }
        return NULL;
}

static void test_bound_waits(void **state) {
        Bounded b = {.q = queue(0), .n = 20};
        OpenclQueue *record = opencl_queue_find(b.q);
        pthread_t thread;

        library.track = true;
        library.limit = 4;
        assert_int_equal(pthread_create(&thread, NULL, launch_bounded, &b), 0);
        for (int completed = 0; completed < 20;) {
                /* Full, and one waits; or all are in. */
                while (atomic_load(&record->bound_waiters) == 0 && atomic_load(&b.submitted) < 20)
                        nap();
                int submitted = atomic_load(&b.submitted);
                assert_in_range(submitted - completed, 1, 4);
                /* The one that waits is known to the service: the queue is not idle when the others are done. */
                if (submitted < 20)
                        assert_int_equal(__atomic_load_n(&library.last->outstanding, __ATOMIC_SEQ_CST),
                                        submitted - completed + 1);
                completed = submitted - (submitted < 20 ? 2 : 0);
                sim_complete_to(completed);
                while (atomic_load(&b.submitted) == submitted && submitted < 20)
                        nap();
        }
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(atomic_load(&record->grace), 0);
        assert_int_equal(cl->clFinish(b.q), CL_SUCCESS);
        assert_int_equal(library.completed, 20);
        assert_true(sim.n.flushes > 0);
        release(b.q);
}

/* No launch here ever completes by itself: a thread that waited would wait for ever, or until it gives up and leaves a trace. */
static void never_waits(cl_command_queue q, int n) {
        library.limit = 1;
        launches(q, n);
        assert_int_equal(atomic_load(&opencl_queue_find(q)->grace), 0);
}

static void test_user_event(void **state) {
        for (int ooo = 0; ooo < 2; ooo++) {
                cl_command_queue q = queue(ooo ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : 0);
                cl_event user = cl->clCreateUserEvent(NULL, NULL), e, next;

                library.track = true;
                library.limit = 1;
                assert_int_equal(launch(q, 1, &user, &e), CL_SUCCESS);
                for (int i = 0; i < 20; i++) {
                        assert_int_equal(launch(q, 1, &e, &next), CL_SUCCESS);
                        assert_int_equal(cl->clReleaseEvent(e), CL_SUCCESS);
                        e = next;
                }
                assert_int_equal(atomic_load(&opencl_queue_find(q)->grace), 0);
                assert_int_equal(cl->clSetUserEventStatus(user, CL_COMPLETE), CL_SUCCESS);
                assert_int_equal(cl->clFinish(q), CL_SUCCESS);

                /* And then it is bound again. */
                assert_true(opencl_queue_find(q)->unsafe_seq <= opencl_queue_find(q)->done_seq);
                assert_int_equal(cl->clReleaseEvent(e), CL_SUCCESS);
                assert_int_equal(cl->clReleaseEvent(user), CL_SUCCESS);
                release(q);
        }
}

/* The wait list passed while nobody watched. */
static void test_unwatched_user_event(void **state) {
        cl_command_queue q = queue(0);
        cl_event user = cl->clCreateUserEvent(NULL, NULL);

        assert_int_equal(launch(q, 1, &user, NULL), CL_SUCCESS);
        library.track = true;
        never_waits(q, 20);
        assert_int_equal(cl->clSetUserEventStatus(user, CL_COMPLETE), CL_SUCCESS);
        assert_int_equal(cl->clFinish(q), CL_SUCCESS);
        assert_int_equal(cl->clReleaseEvent(user), CL_SUCCESS);
        release(q);
}

static void test_marker_and_native_kernel(void **state) {
        for (int how = 0; how < 3; how++) {
                cl_command_queue q = queue(how == 2 ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : 0);
                cl_event user = cl->clCreateUserEvent(NULL, NULL);

                library.track = true;
                if (how == 0)
                        assert_int_equal(cl->clEnqueueMarkerWithWaitList(q, 1, &user, NULL), CL_SUCCESS);
                else if (how == 1)
                        assert_int_equal(cl->clEnqueueNativeKernel(
                                                         q, NULL, NULL, 0, 0, NULL, NULL, 0, NULL, NULL),
                                        CL_SUCCESS);
                else
                        assert_int_equal(cl->clEnqueueBarrier(q), CL_SUCCESS);
                never_waits(q, 20);
                assert_int_equal(cl->clFinish(q), CL_SUCCESS);
                assert_int_equal(cl->clSetUserEventStatus(user, CL_COMPLETE), CL_SUCCESS);
                assert_int_equal(cl->clReleaseEvent(user), CL_SUCCESS);
                release(q);
        }
}

/* Another queue's launch is as safe as it is there, and is flushed, because nobody else may. */
static void test_other_queue(void **state) {
        cl_command_queue a = queue(0), b = queue(0);
        OpenclTracked t;
        cl_event safe, unsafe, user = cl->clCreateUserEvent(NULL, NULL), of_safe, of_unsafe;

        library.track = true;
        assert_int_equal(launch(a, 0, NULL, &safe), CL_SUCCESS);
        int flushes = sim.n.flushes;
        assert_int_equal(launch(b, 1, &safe, &of_safe), CL_SUCCESS);
        assert_true(sim.n.flushes > flushes);
        assert_true(opencl_track_find(opencl_queue_find(b), of_safe, &t));
        assert_true(t.safe);

        assert_int_equal(launch(a, 1, &user, &unsafe), CL_SUCCESS);
        assert_int_equal(launch(b, 1, &unsafe, &of_unsafe), CL_SUCCESS);
        assert_true(opencl_track_find(opencl_queue_find(b), of_unsafe, &t));
        assert_false(t.safe);
        assert_int_equal(cl->clSetUserEventStatus(user, CL_COMPLETE), CL_SUCCESS);
        assert_int_equal(cl->clFinish(a), CL_SUCCESS);
        assert_int_equal(cl->clFinish(b), CL_SUCCESS);
        cl_event all[] = {safe, unsafe, user, of_safe, of_unsafe};
        for (size_t i = 0; i < ELEMENTSOF(all); i++)
                assert_int_equal(cl->clReleaseEvent(all[i]), CL_SUCCESS);
        release(a);
        release(b);
}

/* What only looks safe: after a second the launch goes through, and twice as many may be in flight. */
static void test_gives_up(void **state) {
        cl_command_queue q = queue(0);
        OpenclQueue *record = opencl_queue_find(q);

        library.track = true;
        library.limit = 1;
        launches(q, 2);
        assert_int_equal(atomic_load(&record->grace), 1);
        assert_int_equal(sim.n.enqueues, 2);
        assert_int_equal(cl->clFinish(q), CL_SUCCESS);
        assert_int_equal(atomic_load(&record->grace), 0);
        release(q);
}

static void CL_CALLBACK launch_from_callback(cl_event e, cl_int status, void *userdata) {
        launches(userdata, 10);
}

static void test_callback_never_waits(void **state) {
        cl_command_queue q = queue(0);
        cl_event e;

        library.track = true;
        library.limit = 1;
        assert_int_equal(launch(q, 0, NULL, &e), CL_SUCCESS);
        assert_int_equal(cl->clSetEventCallback(e, CL_COMPLETE, launch_from_callback, q), CL_SUCCESS);
        sim_complete_to(1);
        assert_int_equal(library.nowait, 10);
        assert_int_equal(library.launches, 11);
        assert_int_equal(atomic_load(&opencl_queue_find(q)->grace), 0);
        assert_int_equal(cl->clFinish(q), CL_SUCCESS);
        assert_int_equal(cl->clReleaseEvent(e), CL_SUCCESS);
        release(q);
}

/* --- the drain --- */

static void test_drain(void **state) {
        cl_command_queue q = queue(0);

        launches(q, 10);
        library.track = true;
        library.last->info.drain(library.last, library.last->info.userdata);
        assert_int_equal(sim.n.markers, 1);
        assert_true(sim.n.flushes > 0);
        launches(q, 1);
        sim_complete_to(10);
        assert_int_equal(library.drained, 0);
        sim_complete_to(11);
        assert_int_equal(library.drained, 1);
        assert_int_equal(library.completed, 0);
        sim_complete_to(12);
        assert_int_equal(library.completed, 1);

        /* Where a marker cannot be had, the queue is called idle rather than busy for ever. */
        sim.fail_next = CL_OUT_OF_HOST_MEMORY;
        library.last->info.drain(library.last, library.last->info.userdata);
        assert_int_equal(library.drained, 2);
        release(q);
}

static void release_in_marker(cl_command_queue q) {
        sim.in_marker = NULL;
        int releases = sim.n.queue_releases;
        release(q);
        assert_int_equal(sim.n.queue_releases, releases); /* kept until the marker is in */
}

static void test_release_during_drain(void **state) {
        (void) queue(0);
        XschedQueue *xq = library.last;

        xq->refs++;
        sim.in_marker = release_in_marker;
        xq->info.drain(xq, xq->info.userdata);
        assert_int_equal(sim.n.queue_releases, 1);
        sim_complete_to(sim.n_events);
        assert_int_equal(library.drained, 1);

        xq->info.drain(xq, xq->info.userdata); /* a late one: nobody is there any more */
        assert_int_equal(sim.n.markers, 1);
        (void) xsched_queue_unref(xq);
}

/* --- queues --- */

static void test_references(void **state) {
        cl_command_queue q = queue(0);

        assert_int_equal(cl->clRetainCommandQueue(q), CL_SUCCESS);
        release(q);
        launches(q, 1);
        assert_int_equal(library.launches, 1);
        sim_complete_to(1);
        release(q);
        assert_int_equal(library.queues_alive, 0);
        assert_null(opencl_queue_find(q));
}

static void test_release_with_work(void **state) {
        cl_command_queue q = queue(0);

        library.track = true;
        launches(q, 3);
        release(q);
        assert_int_equal(library.queues_alive, 1); /* until the work is done */
        sim_complete_to(3);
        assert_int_equal(library.completed, 3);
}

/* Many queues at once, released in another order: the table grows and shrinks. */
static void test_many_queues(void **state) {
        enum { QUEUES = 1000 };
        static cl_command_queue q[QUEUES];

        for (int round = 0; round < 3; round++) {
                library.launches = 0;
                for (size_t i = 0; i < QUEUES; i++)
                        q[i] = queue(0);
                for (size_t i = 0; i < QUEUES; i++)
                        launches(q[i], 1);
                assert_int_equal(library.launches, QUEUES);
                sim_complete_to(sim.n_events);
                sim.n_events = 0;
                for (size_t i = 0; i < QUEUES; i++)
                        release(q[i * 7 % QUEUES]);
                assert_int_equal(library.queues_alive, 0);
        }
}

static int32_t hint_of(cl_queue_properties key, cl_queue_properties value) {
        const cl_queue_properties list[] = {key, value, 0};
        cl_command_queue q = cl->clCreateCommandQueueWithProperties(NULL, sim_device, list, NULL);
        int32_t hint = library.queues_alive == 1 ? library.last->info.priority_hint : INT32_MAX;
        release(q);
        return hint;
}

static void test_properties(void **state) {
        assert_int_equal(hint_of(CL_QUEUE_PRIORITY_KHR, CL_QUEUE_PRIORITY_LOW_KHR), -1);
        assert_int_equal(hint_of(CL_QUEUE_PRIORITY_KHR, CL_QUEUE_PRIORITY_MED_KHR), 0);
        assert_int_equal(hint_of(CL_QUEUE_PRIORITY_KHR, CL_QUEUE_PRIORITY_HIGH_KHR), 0);
        assert_int_equal(hint_of(CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE), 0);
        /* A queue that kernels launch to, on the device, is nothing to us. */
        assert_int_equal(hint_of(CL_QUEUE_PROPERTIES,
                                         CL_QUEUE_ON_DEVICE | CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE),
                        INT32_MAX);

        cl_command_queue q = queue(0);
        assert_true(atomic_load(&opencl_queue_find(q)->in_order));
        assert_int_equal(cl->clSetCommandQueueProperty(
                                         q, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, CL_TRUE, NULL),
                        CL_SUCCESS);
        assert_false(atomic_load(&opencl_queue_find(q)->in_order));
        release(q);
}

static void test_extension_function(void **state) {
        cl_command_queue(CL_API_CALL * create)(
                        cl_context, cl_device_id, const cl_queue_properties *, cl_int *);

        *(void **) &create = cl->clGetExtensionFunctionAddress("clCreateCommandQueueWithPropertiesKHR");
        assert_non_null(create);
        assert_ptr_not_equal(create, sim_dispatch.clCreateCommandQueueWithProperties);
        assert_null(cl->clGetExtensionFunctionAddress("clNoSuchFunction"));
        cl_command_queue q = create(NULL, sim_device, NULL, NULL);
        assert_non_null(opencl_queue_find(q));
        release(q);
}

static void expect_device(cl_device_id device, const char *id) {
        cl_command_queue q = cl->clCreateCommandQueue(NULL, device, 0, NULL);
        assert_string_equal(library.last->device, id);
        release(q);
}

static void test_device_ids(void **state) {
        expect_device(sim_device, "opencl:some-platform:big-gpu-tm-3.5-x:0");
        expect_device(sim_sub_device, "opencl:some-platform:big-gpu-tm-3.5-x:0");
        expect_device(sim_twin, "opencl:some-platform:big-gpu-tm-3.5-x:1");
        sim.pci = "khr";
        expect_device(sim_sub_device, "pci:0001:65:02.3");
        sim.pci = "nv";
        expect_device(sim_device, "pci:0002:17:01.1");
        sim.pci = "amd";
        expect_device(sim_device, "pci:0000:c1:1f.7");
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
        const struct CMUnitTest tests[] = {
                        T(test_layer_info),
                        T(test_table_lengths),
                        T(test_open_gate_does_nothing),
                        T(test_tracked),
                        T(test_failed_launch),
                        T(test_unknown_queue_passes),
                        T(test_errno),
                        T(test_blocking),
                        T(test_application_learns_first),
                        T(test_out_of_order_completion),
                        T(test_forgotten_callback),
                        T(test_bound_waits),
                        T(test_user_event),
                        T(test_unwatched_user_event),
                        T(test_marker_and_native_kernel),
                        T(test_other_queue),
                        T(test_gives_up),
                        T(test_callback_never_waits),
                        T(test_drain),
                        T(test_release_during_drain),
                        T(test_references),
                        T(test_release_with_work),
                        T(test_many_queues),
                        T(test_properties),
                        T(test_extension_function),
                        T(test_device_ids),
        };
        return cmocka_run_group_tests(tests, setup_group, NULL);
}
