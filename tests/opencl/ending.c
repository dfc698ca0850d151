/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A program that does not clean up: it ends while a thread launches, with work in flight and callbacks to come
 */

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "cl-test.h"

#define LAUNCHES  40
#define IN_FLIGHT 8

static atomic_int n_launched, n_called;
static atomic_bool ending;

static void CL_CALLBACK called(cl_event e, cl_int status, void *userdata) {
        atomic_fetch_add(&n_called, 1);
}

/* The runtime may answer anything while it is unloaded: the thread then sleeps until the process has ended. */
#define TRY(call)                                                                                                      \
        do {                                                                                                           \
                cl_int result = (call);                                                                                \
                while (result != CL_SUCCESS && atomic_load(&ending))                                                   \
                        (void) pause();                                                                                \
                CHECK_CL(result);                                                                                      \
        } while (0)

static void *work(void *unused) {
        static const size_t size = N;
        static const cl_int rounds = 1000;
        cl_command_queue q = queue_make(0);
        cl_mem a = buffer_make();
        cl_int r;
        cl_kernel k = clCreateKernel(t.program, "busy", &r);

        CHECK_CL(r);
        CHECK_CL(clSetKernelArg(k, 0, sizeof(a), &a));
        CHECK_CL(clSetKernelArg(k, 1, sizeof(rounds), &rounds));
        for (;;) {
                cl_event e[IN_FLIGHT];
                for (int i = 0; i < IN_FLIGHT; i++) {
                        TRY(clEnqueueNDRangeKernel(q, k, 1, NULL, &size, NULL, 0, NULL, e + i));
                        TRY(clSetEventCallback(e[i], CL_COMPLETE, called, NULL));
                        atomic_fetch_add(&n_launched, 1);
                }
                for (int i = 0; i < IN_FLIGHT; i++) {
                        TRY(clWaitForEvents(1, e + i));
                        TRY(clReleaseEvent(e[i]));
                }
        }
        return NULL;
}

int main(void) {
        pthread_t thread;

        test_open();
        CHECK(pthread_create(&thread, NULL, work, NULL) == 0);
        while (atomic_load(&n_launched) < LAUNCHES || atomic_load(&n_called) == 0)
                (void) sched_yield();
        test_close();
        atomic_store(&ending, true);
        return 0;
}
