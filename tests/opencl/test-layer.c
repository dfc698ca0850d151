/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The layer over a simulated runtime: each call that it makes there, and each reference that it takes
 */

#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/opencl-mark-name.h"
#include "layer-fixture.h"
#include "shim/opencl/opencl-launch.h"

static const cl_icd_dispatch *other_tables[2]; /* of other loaders; never freed, as in a real one */

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

/* A loader's table may be shorter than ours, or longer; what is not hooked is passed through, and no hook appears from
 * nothing. */
static void test_table_lengths(void **state) {
        struct {
                cl_icd_dispatch known;
                OpenclFunction later[3];
        } target = {.known = sim_dispatch,
                        .later = {(OpenclFunction) layer_setup, (OpenclFunction) layer_teardown, NULL}};
        const cl_icd_dispatch *d, *unset = NULL;
        cl_uint n = 0;

        /* A table of OpenCL 1.0: it ends with the entry for the kernel launch. */
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

/* --- the end of the process --- */

static XschedQueue *at_end;

/* The exit handler that a runtime registers when it is loaded. A failed assertion here would only end the child's
 * test. */
static void runtime_ends(void) {
        int before = sim.n.markers + sim.n.queries + sim.n.flushes;

        at_end->info.drain(at_end, at_end->info.userdata);
        _exit(library.completed == 3 && library.drained == 1 && before == sim.n.markers + sim.n.queries + sim.n.flushes
                                        ? EXIT_SUCCESS
                                        : EXIT_FAILURE);
}

/* No thread of ours calls a runtime that is being taken down. */
static void test_exit(void **state) {
        int status;
        pid_t pid = fork();

        assert_int_not_equal(pid, -1);
        if (pid == 0) {
                (void) atexit(runtime_ends);
                library.track = true;
                cl_command_queue q = queue(0);
                at_end = library.last;
                launches(q, 3);
                exit(EXIT_SUCCESS); /* NOLINT(concurrency-mt-unsafe): there is one thread */
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), EXIT_SUCCESS);
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
        assert_int_equal(cl->clEnqueueReadBuffer(q, NULL, CL_TRUE, 0, 0, NULL, 0, NULL, NULL), CL_INVALID_VALUE);
        assert_int_equal(library.completed, 7);
        release(q);
}

/* However late callbacks are, the application's own wait tells the layer of the end. */
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

/* A runtime that forgets to call back for failed commands does not block the queue. */
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

        /* Where the runtime refuses a marker, the queue counts as idle rather than busy for ever. */
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

        xq->info.drain(xq, xq->info.userdata); /* a late callback: its queue is gone */
        assert_int_equal(sim.n.markers, 1);
        (void) xsched_queue_unref(xq);
}

/* No callback tells of the end of the drain: the release of the queue does. */
static void test_drain_at_the_end(void **state) {
        cl_command_queue q = queue(0);
        XschedQueue *xq = library.last;

        xq->refs++;
        sim.no_callbacks = true;
        xq->info.drain(xq, xq->info.userdata);
        assert_int_equal(library.drained, 0);
        release(q);
        assert_int_equal(library.drained, 1);
        assert_int_equal(library.completed, 0);
        sim_complete_to(sim.n_events);
        assert_int_equal(library.drained, 1);
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
        /* The layer ignores a queue on the device, to which kernels launch. */
        assert_int_equal(hint_of(CL_QUEUE_PROPERTIES, CL_QUEUE_ON_DEVICE | CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE),
                        INT32_MAX);

        cl_command_queue q = queue(0);
        assert_true(atomic_load(&opencl_queue_find(q)->in_order));
        assert_int_equal(cl->clSetCommandQueueProperty(q, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, CL_TRUE, NULL),
                        CL_SUCCESS);
        assert_false(atomic_load(&opencl_queue_find(q)->in_order));
        release(q);
}

static void test_extension_function(void **state) {
        cl_command_queue(CL_API_CALL * create)(cl_context, cl_device_id, const cl_queue_properties *, cl_int *);

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

/* --- the end --- */

#ifndef CL_LAYER_PROPERTIES_LIST_END
cl_int CL_API_CALL clInitLayerWithProperties(cl_uint num_entries, const cl_icd_dispatch *target_dispatch,
                cl_uint *num_entries_ret, const cl_icd_dispatch **layer_dispatch_ret, const cl_properties *properties);
cl_int CL_API_CALL clDeinitLayer(void);
#endif

static bool is_marked(void) {
        char line[4096];
        bool found = false;
        FILE *f = fopen("/proc/self/maps", "re");

        assert_non_null(f);
        while (fgets(line, sizeof(line), f))
                found |= strstr(line, "/memfd:" OPENCL_MARK) != NULL;
        (void) fclose(f);
        return found;
}

static void init_with_properties(const cl_icd_dispatch **ret) {
        static const cl_properties none[] = {0}, unknown[] = {0x1234, 1, 0};
        cl_uint n = 0;

        assert_int_equal(clInitLayerWithProperties(OPENCL_N_ENTRIES, &sim_dispatch, &n, ret, unknown),
                        CL_INVALID_PROPERTY);
        assert_int_equal(clInitLayerWithProperties(OPENCL_N_ENTRIES, &sim_dispatch, &n, ret, none), CL_SUCCESS);
        assert_int_equal(n, OPENCL_N_ENTRIES);
        assert_ptr_not_equal((*ret)->clEnqueueNDRangeKernel, sim_dispatch.clEnqueueNDRangeKernel);
}

static int n_calls(void) {
        return sim.n.enqueues + sim.n.markers + sim.n.flushes + sim.n.queries + sim.n.callbacks + sim.n.retains;
}

/* All loaders release the layer, the last one with work in flight and a drain pending: launches count as done, the
 * layer calls nothing any more, and the application's calls pass. The next loader finds the layer's first state. */
static void test_deinit(void **state) {
        const cl_icd_dispatch *other;
        init_with_properties(&other);
        assert_int_equal(clDeinitLayer(), CL_SUCCESS);
        assert_true(is_marked());

        library.track = true;
        cl_command_queue q = queue(0), idle = queue(0);
        XschedQueue *xq = library.last;
        launches(q, 3);
        assert_int_equal(library.completed, 0);
        assert_int_equal(opencl_n_busy, 1);

        for (int i = 0; i < 3; i++) /* the fixture's, and those of test_table_lengths() */
                assert_int_equal(clDeinitLayer(), CL_SUCCESS);
        assert_int_equal(clDeinitLayer(), CL_SUCCESS); /* no loader is left */
        assert_false(is_marked());
        assert_int_equal(library.completed, 3);
        assert_int_equal(opencl_n_busy, 0);

        int before = n_calls();
        sim_complete_to(3);
        xq->info.drain(xq, xq->info.userdata);
        assert_int_equal(library.drained, 1);
        assert_int_equal(n_calls(), before);
        assert_int_equal(sim.n.events_alive, 3); /* given up: the runtime is not there to take them */
        int launched = library.launches;
        assert_int_equal(launch(q, 0, NULL, NULL), CL_SUCCESS);
        assert_int_equal(library.launches, launched);
        release(q);
        release(idle);
        assert_int_equal(library.completed, 3);

        init_with_properties(&cl);
        assert_true(is_marked());
        q = queue(0);
        assert_int_equal(launch(q, 0, NULL, NULL), CL_SUCCESS);
        assert_int_equal(library.launches, launched + 1);
        assert_int_equal(opencl_n_busy, 1);
        sim_complete_to(5);
        assert_int_equal(library.completed, 4);
        release(q);
}

static void end_loaders(cl_command_queue q) {
        for (int i = 0; i < 4; i++)
                assert_int_equal(clDeinitLayer(), CL_SUCCESS);
}

/* All loaders release the layer while a launch is between its gate and the runtime, as one is whose gate is opened only
 * then: nobody will learn of its end, so it counts as done. The queue's other launches pass. */
static void test_deinit_meanwhile(void **state) {
        for (int own_event = 0; own_event < 2; own_event++) {
                library.track = true;
                library.completed = 0;
                cl_command_queue q = queue(0);
                XschedQueue *xq = library.last;
                cl_event e = NULL;

                sim.in_enqueue = end_loaders;
                assert_int_equal(launch(q, 0, NULL, own_event ? &e : NULL), CL_SUCCESS);
                assert_int_equal(library.completed, 1);
                assert_int_equal(opencl_n_busy, 0);
                sim_complete_to(sim.n_events);
                assert_int_equal(library.completed, 1);
                assert_int_equal(sim.n.events_alive, own_event); /* the application's */
                if (e)
                        assert_int_equal(cl->clReleaseEvent(e), CL_SUCCESS);
                int launched = library.launches;
                assert_int_equal(launch(q, 0, NULL, NULL), CL_SUCCESS);
                assert_int_equal(library.launches, launched);
                xq->info.drain(xq, xq->info.userdata);
                assert_int_equal(library.drained, own_event + 1);
                release(q);
                init_with_properties(&cl);
        }
}

/* Objects that the layer gave up are not freed. */
static int end_teardown(void **state) {
        assert_int_equal(sim.n.queues_alive, 0);
        assert_int_equal(opencl_n_busy, 0);
        return 0;
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, layer_setup, layer_teardown)
        const struct CMUnitTest tests[] = {
                        T(test_exit), /* before any queue is made */
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
                        T(test_drain),
                        T(test_release_during_drain),
                        T(test_drain_at_the_end),
                        T(test_references),
                        T(test_release_with_work),
                        T(test_many_queues),
                        T(test_properties),
                        T(test_extension_function),
                        T(test_device_ids),
                        cmocka_unit_test_setup_teardown(test_deinit, layer_setup, end_teardown),
                        cmocka_unit_test_setup_teardown(test_deinit_meanwhile, layer_setup, end_teardown),
        };
        return cmocka_run_group_tests(tests, layer_setup_group, NULL);
}
