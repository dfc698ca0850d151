/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the OpenCL layer adds to a launch of a tiny kernel: launch+finish, and pipelined
 *
 *     bench-launch [--pairs=N] [--check] LAYER
 *
 * Two workers, one native and one with the layer in force, take turns on the same device: many short turns, so that whatever else
 * the machine does meets both alike. What counts is the ratio of the two in one pair of turns, and of these the
 * median. Inside of xsched-session the layer is attached to the service; in a second run a bystander launches a kernel now and then, so
 * that the queue is watched and every launch tracked.
 *
 * With --check the run fails when an open gate costs more than 5 % in each of several tries: a median of many pairs, but on a
 * machine that does other things, too.
 */

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "common/macro.h"
#include "common/time-util.h"
#include "tests/opencl/cl-test.h"
#include "xsched/xsched.h"

#define FINISH_LAUNCHES   40 /* in a turn: a few milliseconds */
#define PIPELINE_LAUNCHES 1500
#define BYSTANDER_NS      (20 * NSEC_PER_MSEC)
#define BOUND             1.05
#define TRIES             4

typedef struct Worker {
        FILE *to, *from;
        pid_t pid;
} Worker;

/* --- in the worker --- */

static cl_kernel kernel_make(cl_mem a) {
        cl_int r, k = 1;
        cl_kernel kernel = clCreateKernel(t.program, "next", &r);
        CHECK_CL(r);
        CHECK_CL(clSetKernelArg(kernel, 0, sizeof(a), &a));
        CHECK_CL(clSetKernelArg(kernel, 1, sizeof(k), &k));
        return kernel;
}

static uint64_t turn(cl_command_queue q, cl_kernel kernel, bool pipeline) {
        const size_t one = 1;
        uint64_t start = now_ns();

        for (int i = 0; i < (pipeline ? PIPELINE_LAUNCHES : FINISH_LAUNCHES); i++) {
                CHECK_CL(clEnqueueNDRangeKernel(q, kernel, 1, NULL, &one, &one, 0, NULL, NULL));
                if (!pipeline)
                        CHECK_CL(clFinish(q));
        }
        CHECK_CL(clFinish(q));
        return now_ns() - start;
}

static int work(void) {
        char line[16];
        cl_int expected = 0;

        test_open();
        cl_command_queue q = queue_make(0);
        cl_mem a = buffer_make();
        cl_kernel kernel = kernel_make(a);
        while (fgets(line, sizeof(line), stdin)) {
                bool pipeline = line[0] == 'p';
                printf("%" PRIu64 "\n", turn(q, kernel, pipeline));
                (void) fflush(stdout);
                for (int i = 0; i < (pipeline ? PIPELINE_LAUNCHES : FINISH_LAUNCHES); i++)
                        expected = step(expected, 1);
        }

        cl_int got;
        CHECK_CL(clEnqueueReadBuffer(q, a, CL_TRUE, 0, sizeof(got), &got, 0, NULL, NULL));
        CHECK(got == expected);
        CHECK_CL(clReleaseKernel(kernel));
        CHECK_CL(clReleaseMemObject(a));
        CHECK_CL(clReleaseCommandQueue(q));
        test_close();
        return 0;
}

static int stand_by(void) {
        const struct timespec pause = ns_to_timespec(BYSTANDER_NS);

        test_open();
        cl_command_queue q = queue_make(0);
        cl_mem a = buffer_make();
        for (bool first = true;; first = false) {
                CHECK_CL(launch_step(q, a, 1, 0, NULL, NULL));
                CHECK_CL(clFinish(q));
                if (first) {
                        (void) puts("ready");
                        (void) fflush(stdout);
                }
                (void) nanosleep(&pause, NULL);
        }
}

/* --- in the parent --- */

static Worker worker_start(const char *role, const char *layer, const char *counters) {
        int to[2], from[2];
        CHECK(pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0);
        Worker w = {.pid = fork()};
        CHECK(w.pid >= 0);
        if (w.pid == 0) {
                (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
                CHECK(dup2(to[0], STDIN_FILENO) >= 0 && dup2(from[1], STDOUT_FILENO) >= 0);
                (void) unsetenv("OPENCL_LAYERS");
                (void) setenv("TEST_COUNTERS", counters ?: "/dev/null", true);
                if (layer)
                        (void) setenv("OPENCL_LAYERS", layer, true);
                if (streq(role, "bystander"))
                        (void) setenv("XSCHED_WEIGHT", "99", true); /* an entity of its own */
                (void) execl("/proc/self/exe", "bench-launch", role, NULL);
                _exit(127);
        }
        (void) close(to[0]);
        (void) close(from[1]);
        w.to = fdopen(to[1], "we");
        w.from = fdopen(from[0], "re");
        CHECK(w.to && w.from);
        return w;
}

static void worker_end(Worker *w) {
        int status;
        (void) fclose(w->to);
        CHECK(waitpid(w->pid, &status, 0) == w->pid);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        (void) fclose(w->from);
}

static double worker_turn(Worker *w, bool pipeline) {
        uint64_t ns;
        CHECK(fputs(pipeline ? "p\n" : "f\n", w->to) >= 0 && fflush(w->to) == 0);
        CHECK(fscanf(w->from, "%" SCNu64, &ns) == 1);
        return (double) ns / (pipeline ? PIPELINE_LAUNCHES : FINISH_LAUNCHES);
}

static int compare(const void *a, const void *b) {
        double x = *(const double *) a, y = *(const double *) b;
        return (x > y) - (x < y);
}

static double median(double *values, size_t n) {
        qsort(values, n, sizeof(double), compare);
        return values[n / 2];
}

typedef struct Result {
        double native_ns, layer_ns, ratio;
} Result;

static Result measure(Worker *native, Worker *layer, bool pipeline, size_t pairs) {
        _cleanup_free_ double *n = calloc(pairs, sizeof(double)), *l = calloc(pairs, sizeof(double)),
                              *ratio = calloc(pairs, sizeof(double));
        CHECK(n && l && ratio);
        (void) worker_turn(native, pipeline);
        (void) worker_turn(layer, pipeline);
        for (size_t i = 0; i < pairs; i++) {
                /* Who goes first changes: what one leaves behind (caches, clocks) helps each as often. */
                if (i % 2)
                        l[i] = worker_turn(layer, pipeline);
                n[i] = worker_turn(native, pipeline);
                if (i % 2 == 0)
                        l[i] = worker_turn(layer, pipeline);
                ratio[i] = l[i] / n[i];
        }
        return (Result){.native_ns = median(n, pairs),
                        .layer_ns = median(l, pairs),
                        .ratio = median(ratio, pairs)};
}

static uint64_t counter(const char *path, const char *name) {
        char line[64];
        uint64_t value = 0;
        FILE *f = fopen(path, "re");
        CHECK(f);
        while (fgets(line, sizeof(line), f))
                if (startswith(line, name))
                        value = strtoull(line + strlen(name), NULL, 10);
        (void) fclose(f);
        return value;
}

static void print(const char *what, Result r) {
        printf("%-34s %8.2f us native %8.2f us with the layer, ratio %.3f\n", what, r.native_ns / 1000,
                        r.layer_ns / 1000, r.ratio);
        (void) fflush(stdout);
}

/* With an open gate. Returns whether both stayed within the bound, in this try. */
static bool run_open(const char *layer_path, const char *counters, size_t pairs) {
        Worker native = worker_start("worker", NULL, NULL),
               layer = worker_start("worker", layer_path, counters);
        Result finish = measure(&native, &layer, false, pairs),
               pipeline = measure(&native, &layer, true, pairs);

        worker_end(&native);
        worker_end(&layer);
        CHECK(counter(counters, "launches ") > pairs * PIPELINE_LAUNCHES);
        CHECK(counter(counters, "tracked ") == 0);
        print("gate open: launch+finish", finish);
        print("gate open: pipelined", pipeline);
        return finish.ratio <= BOUND && pipeline.ratio <= BOUND;
}

static void run_tracked(const char *layer_path, const char *counters, size_t pairs) {
        char line[16];
        Worker bystander = worker_start("bystander", layer_path, NULL);
        CHECK(fgets(line, sizeof(line), bystander.from));
        Worker native = worker_start("worker", NULL, NULL),
               layer = worker_start("worker", layer_path, counters);
        Result finish = measure(&native, &layer, false, pairs),
               pipeline = measure(&native, &layer, true, pairs);

        worker_end(&native);
        worker_end(&layer);
        CHECK(kill(bystander.pid, SIGKILL) == 0 && waitpid(bystander.pid, NULL, 0) == bystander.pid);
        print("watched: launch+finish", finish);
        print("watched: pipelined", pipeline);
        printf("of %" PRIu64 " launches %" PRIu64 " were tracked\n", counter(counters, "launches "),
                        counter(counters, "tracked "));
}

int main(int argc, char **argv) {
        size_t pairs = 60;
        const char *layer = NULL, *value;
        bool check = false, good = false;

        for (int i = 1; i < argc; i++)
                if (streq(argv[i], "worker"))
                        return work();
                else if (streq(argv[i], "bystander"))
                        return stand_by();
                else if (streq(argv[i], "--check"))
                        check = true;
                else if ((value = startswith(argv[i], "--pairs=")))
                        pairs = strtoul(value, NULL, 10);
                else
                        layer = argv[i];
        if (!layer || pairs == 0) {
                fprintf(stderr, "usage: bench-launch [--pairs=N] [--check] LAYER\n");
                return 2;
        }

        char counters[] = "/tmp/bench-launch-XXXXXX";
        int fd = mkstemp(counters);
        CHECK(fd >= 0);
        (void) close(fd);
        for (int i = 0; i < (check ? TRIES : 1) && !good; i++)
                good = run_open(layer, counters, pairs);
        if (getenv("XSCHED_BUS_ADDRESS") && !check)
                run_tracked(layer, counters, pairs);
        (void) unlink(counters);
        return check && !good;
}
