/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The layer, loaded over the simulated runtime
 */

#include "layer-fixture.h"
#include "common/time-util.h"
#include "shim/opencl/opencl-tail.h"
#include "shim/opencl/opencl-time.h"

const cl_icd_dispatch *cl;

int layer_setup_group(void **state) {
        cl_uint n = 0;
        assert_int_equal(clInitLayer(OPENCL_N_ENTRIES, &sim_dispatch, &n, &cl), CL_SUCCESS);
        assert_int_equal(n, OPENCL_N_ENTRIES);
        return 0;
}

int layer_setup(void **state) {
        sim_reset();
        return 0;
}

/* Checks that the layer has left nothing at the runtime or at the library, whatever the test did. */
int layer_teardown(void **state) {
        assert_int_equal(sim.n.events_alive, 0);
        assert_int_equal(sim.n.queues_alive, 0);
        assert_int_equal(library.queues_alive, 0);
        assert_int_equal(opencl_n_busy, 0);
        return 0;
}

/* The record of a queue that was forgotten stays. */
int forgotten_teardown(void **state) {
        assert_int_equal(sim.n.events_alive, 0);
        assert_int_equal(opencl_n_busy, 0);
        return 0;
}

cl_command_queue queue(cl_command_queue_properties properties) {
        cl_command_queue q = cl->clCreateCommandQueue(NULL, sim_device, properties, NULL);
        assert_non_null(q);
        return q;
}

cl_int launch(cl_command_queue q, cl_uint n, const cl_event *waits, cl_event *event) {
        return cl->clEnqueueNDRangeKernel(q, NULL, 1, NULL, NULL, NULL, n, waits, event);
}

void launches(cl_command_queue q, int n) {
        for (int i = 0; i < n; i++)
                assert_int_equal(launch(q, 0, NULL, NULL), CL_SUCCESS);
}

void release(cl_command_queue q) {
        assert_int_equal(cl->clReleaseCommandQueue(q), CL_SUCCESS);
}

cl_uint references(cl_event e) {
        cl_uint n;
        assert_int_equal(cl->clGetEventInfo(e, CL_EVENT_REFERENCE_COUNT, sizeof(n), &n, NULL), CL_SUCCESS);
        return n;
}

/* --- queues with a tail --- */

void finish(cl_command_queue q) {
        assert_int_equal(cl->clFinish(q), CL_SUCCESS);
}

/* Has the layer know that launches take so long, however long this thread has waited for a CPU. */
void takes(cl_command_queue q, uint64_t ns) {
        OpenclQueue *record = opencl_queue_find(q);

        opencl_time_reset(record);
        atomic_store(&record->mean_ns, ns);
}

/* A queue whose application has told the ends of its work often enough. */
cl_command_queue waiting_queue(cl_command_queue_properties properties) {
        cl_command_queue q = queue(properties);

        library.track = true;
        library.completed = 0;
        for (int i = 0; i < 20; i++) {
                launches(q, 1);
                finish(q);
        }
        assert_int_equal(library.completed, 20);
        library.completed = 0;
        sim.n_events = 0;
        takes(q, 20 * NSEC_PER_USEC);
        return q;
}

bool has_tail(cl_command_queue q) {
        return atomic_load(&opencl_queue_find(q)->tail);
}

static size_t place_of(const void *kernel) {
        const size_t items = KERNEL_ITEMS;

        return launch_kind_place(opencl_time_kind(kernel, 1, &items));
}

cl_kernel kernel_of_own_place(unsigned n) {
        static char addresses[64];
        char *found[KERNELS_MAX] = {};
        unsigned n_found = 0;

        assert_true(n < KERNELS_MAX);
        for (size_t i = 0; i < ELEMENTSOF(addresses) && n_found <= n; i++) {
                bool taken = false;

                for (unsigned k = 0; k < n_found; k++)
                        taken |= place_of(found[k]) == place_of(&addresses[i]);
                if (!taken)
                        found[n_found++] = &addresses[i];
        }
        assert_int_equal(n_found, n + 1);
        return (cl_kernel) (void *) found[n];
}

/* Longer than a queue may rest. Nothing depends on how much longer. */
void rest(void) {
        uint64_t until = now_ns() + 2 * OPENCL_TAIL_REST_NS;

        while (now_ns() < until)
                ;
}

/* How many commands have an event that we hold. */
int n_events_held(void) {
        int n = 0;

        for (int i = 0; i < sim.n_events; i++)
                n += sim.events[i] && sim.events[i]->refs > 1;
        return n;
}
