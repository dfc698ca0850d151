/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How long launches take, by the runtime's own time stamps
 *
 * timed sync|deep USEC...
 *         For each length a kernel that computes for about so long; more of them take turns. The queue has profiling
 *         enabled.
 *
 * Says "ready". Then, for each line "FROM TO" (CLOCK_MONOTONIC, ns) on standard input, launches until TO. Prints the
 * mean and the median of the times on the device, from start to end in nanoseconds, of the launches that were complete
 * between the two, and how many these were; "0 0 0" if none was. Launches that are left at TO are waited for and not
 * counted: others, which ran beside them, may have ended. Checks the results at the end.
 *
 *         sync    a launch, clFinish(), and again
 *         deep    eight launches in flight, and an event for each
 */

#include <inttypes.h>
#include <time.h>

#include "cl-test.h"
#include "tools/demo/recurrence.h"

#define DEPTH       8U
#define LENGTHS_MAX 4
#define REFINE      5

static const char *const source = "__kernel void timed(__global uint *state, uint a, uint c, uint rounds) {\n"
                                  "        size_t i = get_global_id(0);\n"
                                  "        uint x = state[i];\n"
                                  "        for (uint r = 0; r < rounds; r++)\n"
                                  "                x = a * x + c;\n"
                                  "        state[i] = x;\n"
                                  "}\n";

typedef struct Length {
        cl_kernel kernel; /* one for each length, so that each is a kind of its own */
        cl_uint rounds;
        Affine all; /* all rounds as one step */
} Length;

static Length lengths[LENGTHS_MAX];
static int n_lengths;
static cl_mem buffer;
static cl_command_queue queue;
static uint32_t expected;

static uint64_t now(void) {
        struct timespec ts;

        CHECK(clock_gettime(CLOCK_MONOTONIC, &ts) == 0);
        return (uint64_t) ts.tv_sec * 1000000000U + (uint64_t) ts.tv_nsec;
}

static cl_event launch(const Length *l) {
        const size_t global = 64;
        cl_event e;

        CHECK_CL(clEnqueueNDRangeKernel(queue, l->kernel, 1, NULL, &global, &global, 0, NULL, &e));
        expected = affine_apply(l->all, expected);
        return e;
}

static uint64_t take(cl_event e) {
        cl_ulong start, end;

        CHECK_CL(clWaitForEvents(1, &e));
        CHECK_CL(clGetEventProfilingInfo(e, CL_PROFILING_COMMAND_START, sizeof(start), &start, NULL));
        CHECK_CL(clGetEventProfilingInfo(e, CL_PROFILING_COMMAND_END, sizeof(end), &end, NULL));
        CHECK_CL(clReleaseEvent(e));
        return end - start;
}

static int compare(const void *a, const void *b) {
        uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;
        return (x > y) - (x < y);
}

static uint64_t median(const Length *l) {
        uint64_t ns[9];

        for (size_t i = 0; i < sizeof(ns) / sizeof(ns[0]); i++)
                ns[i] = take(launch(l));
        qsort(ns, sizeof(ns) / sizeof(ns[0]), sizeof(ns[0]), compare);
        return ns[sizeof(ns) / sizeof(ns[0]) / 2];
}

static void set_rounds(Length *l, double rounds) {
        l->rounds = (cl_uint) (rounds < 1 ? 1 : rounds);
        l->all = affine_power(AFFINE_STEP, l->rounds);
        CHECK_CL(clSetKernelArg(l->kernel, 3, sizeof(l->rounds), &l->rounds));
}

/* `text` is the kernel's length in microseconds, or "Nr" for N rounds. */
static void length_make(Length *l, cl_program program, const char *text) {
        const Affine one = AFFINE_STEP;
        char *end;
        uint64_t wanted = strtoull(text, &end, 10);
        cl_int r;

        l->kernel = clCreateKernel(program, "timed", &r);
        CHECK_CL(r);
        CHECK_CL(clSetKernelArg(l->kernel, 0, sizeof(buffer), &buffer));
        CHECK_CL(clSetKernelArg(l->kernel, 1, sizeof(one.a), &one.a));
        CHECK_CL(clSetKernelArg(l->kernel, 2, sizeof(one.c), &one.c));
        if (*end == 'r') {
                set_rounds(l, (double) wanted);
                return;
        }
        set_rounds(l, 2000);
        for (int i = 0; i < REFINE; i++) {
                double factor = (double) wanted * 1000 / (double) median(l);
                set_rounds(l, l->rounds * (factor > 20 ? 20 : factor < 0.05 ? 0.05 : factor));
        }
}

#define TIMES_MAX 1000000U

static struct {
        uint64_t ns[TIMES_MAX], sum;
        unsigned n;
} times;

static void add(cl_event e, uint64_t from, uint64_t to) {
        uint64_t took = take(e), at = now();

        if (at < from || at >= to)
                return;
        CHECK(times.n < TIMES_MAX);
        times.sum += times.ns[times.n++] = took;
}

static void run(bool sync, uint64_t from, uint64_t to) {
        cl_event flying[DEPTH] = {};
        unsigned n = 0;

        times.n = 0;
        times.sum = 0;
        for (; now() < to; n++) {
                cl_event *e = &flying[n % DEPTH];
                if (*e)
                        add(*e, from, to);
                *e = launch(lengths + n % (unsigned) n_lengths);
                if (sync) {
                        CHECK_CL(clFinish(queue));
                        add(*e, from, to);
                        *e = NULL;
                }
        }
        for (unsigned i = 0; i < DEPTH; i++)
                if (flying[i])
                        (void) take(flying[i]);
        qsort(times.ns, times.n, sizeof(times.ns[0]), compare);
        if (times.n > 0)
                (void) printf("%lu %lu %u\n", (unsigned long) (times.sum / times.n),
                                (unsigned long) times.ns[times.n / 2], times.n);
        else
                (void) puts("0 0 0");
        (void) fflush(stdout);
}

int main(int argc, char *argv[]) {
        char line[128];
        cl_int r;

        CHECK(argc >= 3 && argc <= 2 + LENGTHS_MAX);
        test_open();
        buffer = buffer_make();
        queue = queue_make(CL_QUEUE_PROFILING_ENABLE);
        cl_program program = clCreateProgramWithSource(t.context, 1, (const char **) (uintptr_t) &source, NULL, &r);
        CHECK_CL(r);
        CHECK_CL(clBuildProgram(program, 1, &t.device, "", NULL, NULL));
        for (; n_lengths < argc - 2; n_lengths++)
                length_make(lengths + n_lengths, program, argv[2 + n_lengths]);
        (void) printf("ready");
        for (int i = 0; i < n_lengths; i++)
                (void) printf(" %u", lengths[i].rounds);
        (void) putchar('\n');
        (void) fflush(stdout);
        while (fgets(line, sizeof(line), stdin)) {
                uint64_t from, to;

                CHECK(sscanf(line, "%" SCNu64 " %" SCNu64, &from, &to) == 2);
                run(strcmp(argv[1], "sync") == 0, from, to);
        }

        cl_uint got[N];
        CHECK_CL(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof(got), got, 0, NULL, NULL));
        CHECK(got[0] == expected && got[63] == expected);
        for (int i = 0; i < n_lengths; i++)
                CHECK_CL(clReleaseKernel(lengths[i].kernel));
        CHECK_CL(clReleaseProgram(program));
        CHECK_CL(clReleaseMemObject(buffer));
        CHECK_CL(clReleaseCommandQueue(queue));
        test_close();
        return 0;
}
