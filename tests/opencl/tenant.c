/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A tenant: always has work for the device until its standard input ends; then prints how many kernels it has run
 *
 * tenant USEC: how long each kernel is. A kernel measures its length by the clock where it can read one: then the speed
 * and the load of the CPU do not matter.
 *
 * One thread launches all the time. It keeps at most DEPTH launches in flight, and makes the next launch before it
 * waits for the oldest. The buffer's contents in the end tell how many kernels ran.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "cl-test.h"

#define DEPTH 3

/* In one work-group, and so by one thread. */
static const char *const source =
#ifdef __x86_64__
                "static ulong now(ulong last) {\n"
                "        uint low, high;\n"
                "        __asm__ volatile(\"rdtsc\" : \"=a\"(low), \"=d\"(high));\n"
                "        return (ulong) high << 32 | low;\n"
                "}\n"
#else
                "static ulong now(ulong last) { return last + 1; }\n"
#endif
                "__kernel void timed(__global int *a, int k, ulong ticks) {\n"
                "        size_t i = get_global_id(0);\n"
                "        a[i] = a[i] * 3 + k;\n"
                "        if (i == 0) {\n"
                "                ulong began = now(0);\n"
                "                for (volatile ulong t = began; t - began < ticks;) t = now(t);\n"
                "        }\n"
                "}\n";

#ifdef __x86_64__
static uint64_t ticks(void) {
        return __builtin_ia32_rdtsc();
}
#else
static uint64_t ticks(void) {
        return (uint64_t) clock() * (1000000000U / CLOCKS_PER_SEC); /* about one step a nanosecond */
}
#endif

static cl_kernel kernel;
static unsigned long n_done; /* the launching thread's */
static atomic_bool ending;

static cl_ulong ticks_in(uint64_t usec) {
        struct timespec from, to;
        uint64_t ns, began = ticks();

        CHECK(clock_gettime(CLOCK_MONOTONIC, &from) == 0);
        do {
                CHECK(clock_gettime(CLOCK_MONOTONIC, &to) == 0);
                ns = (uint64_t) (to.tv_sec - from.tv_sec) * 1000000000U + (uint64_t) to.tv_nsec -
                                (uint64_t) from.tv_nsec;
        } while (ns < 20000000U);
        return (cl_ulong) ((double) (ticks() - began) / (double) ns * (double) usec * 1000);
}

static void kernel_make(uint64_t usec) {
        cl_ulong n = ticks_in(usec);
        cl_int r;

        cl_program program = clCreateProgramWithSource(t.context, 1, (const char **) (uintptr_t) &source, NULL, &r);
        CHECK_CL(r);
        CHECK_CL(clBuildProgram(program, 1, &t.device, "", NULL, NULL));
        kernel = clCreateKernel(program, "timed", &r);
        CHECK_CL(r);
        CHECK_CL(clReleaseProgram(program));
        CHECK_CL(clSetKernelArg(kernel, 2, sizeof(n), &n));
}

static void launch(cl_command_queue q, cl_mem a, cl_int k, cl_event *event) {
        const size_t size = N;

        CHECK_CL(clSetKernelArg(kernel, 0, sizeof(a), &a));
        CHECK_CL(clSetKernelArg(kernel, 1, sizeof(k), &k));
        CHECK_CL(clEnqueueNDRangeKernel(q, kernel, 1, NULL, &size, &size, 0, NULL, event));
        CHECK_CL(clFlush(q));
}

/* An in-order queue: they complete in the order of their launches. */
static void wait_for(cl_event *e) {
        if (!*e)
                return;
        CHECK_CL(clWaitForEvents(1, e));
        CHECK_CL(clReleaseEvent(*e));
        *e = NULL;
        n_done++;
}

static void *work(void *unused) {
        cl_event flying[DEPTH] = {};
        cl_int expected = 0;
        unsigned n = 0;

        cl_command_queue q = queue_make(0);
        cl_mem a = buffer_make();
        for (; !atomic_load(&ending); n++) {
                wait_for(&flying[n % DEPTH]);
                launch(q, a, (cl_int) n, &flying[n % DEPTH]);
                expected = step(expected, (cl_int) n);
        }
        for (unsigned i = 0; i < DEPTH; i++)
                wait_for(&flying[(n + i) % DEPTH]);
        CHECK(n_done == n);
        buffer_expect(q, a, expected);
        CHECK_CL(clReleaseMemObject(a));
        CHECK_CL(clReleaseCommandQueue(q));
        return NULL;
}

int main(int argc, char *argv[]) {
        pthread_t thread;
        char line[8];

        CHECK(argc == 2 && atoi(argv[1]) > 0);
        test_open();
        kernel_make((uint64_t) atoi(argv[1]));
        CHECK(pthread_create(&thread, NULL, work, NULL) == 0);
        while (fgets(line, sizeof(line), stdin))
                ;
        atomic_store(&ending, true);
        CHECK(pthread_join(thread, NULL) == 0);
        (void) printf("%lu\n", n_done);
        CHECK_CL(clReleaseKernel(kernel));
        test_close();
        return 0;
}
