/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the OpenCL layer adds to a launch of a tiny kernel: launch+finish, and pipelined
 *
 *     bench-launch [--pairs=N] [--check] LAYER
 *
 * Two workers, one native and one with the layer in force, take turns on the same device: many short turns, so that
 * whatever else the machine does meets both alike. What counts is the ratio of the two in one pair of turns, and of
 * these the median. Inside of xsched-session the layer is attached to the service; in a second run a bystander launches
 * a kernel now and then, so that the queue is watched and every launch tracked.
 *
 * With --check the run fails when an open gate costs more than 5 % in each of several tries: a median of many pairs,
 * but on a machine that does other things, too.
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
#define ROUNDS            10

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

/* The turns of one kind, of all rounds. */
typedef struct Series {
        const char *what;
        bool pipeline;
        size_t n;
        double *native, *layer, *ratio;
} Series;

static Series series_make(const char *what, bool pipeline, size_t pairs) {
        Series s = {
                        .what = what,
                        .pipeline = pipeline,
                        .native = calloc(pairs, sizeof(double)),
                        .layer = calloc(pairs, sizeof(double)),
                        .ratio = calloc(pairs, sizeof(double)),
        };
        CHECK(s.native && s.layer && s.ratio);
        return s;
}

static void series_run(Series *s, Worker *native, Worker *layer, size_t pairs) {
        (void) worker_turn(native, s->pipeline);
        (void) worker_turn(layer, s->pipeline);
        for (size_t i = 0; i < pairs; i++, s->n++) {
                /* The order changes, so that each worker gains as often from what the other leaves behind (caches,
                 * clocks). */
                if (i % 2)
                        s->layer[s->n] = worker_turn(layer, s->pipeline);
                s->native[s->n] = worker_turn(native, s->pipeline);
                if (i % 2 == 0)
                        s->layer[s->n] = worker_turn(layer, s->pipeline);
                s->ratio[s->n] = s->layer[s->n] / s->native[s->n];
        }
}

/* Prints the series, gives it back, and returns the median of its ratios. */
static double series_end(Series *s) {
        double ratio = median(s->ratio, s->n);
        printf("%-34s %8.2f us native %8.2f us with the layer, ratio %.3f\n", s->what, median(s->native, s->n) / 1000,
                        median(s->layer, s->n) / 1000, ratio);
        (void) fflush(stdout);
        free(s->native);
        free(s->layer);
        free(s->ratio);
        return ratio;
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

typedef struct Launches {
        uint64_t n, tracked;
} Launches;

/* Starts new processes for each round: otherwise the places of their threads and their memory would decide the whole
 * run. */
static Launches run_rounds(
                Series *finish, Series *pipeline, const char *layer_path, const char *counters, size_t pairs) {
        Launches sum = {};
        for (int round = 0; round < ROUNDS; round++) {
                Worker native = worker_start("worker", NULL, NULL);
                Worker layer = worker_start("worker", layer_path, counters);
                series_run(finish, &native, &layer, pairs / ROUNDS);
                series_run(pipeline, &native, &layer, pairs / ROUNDS);
                worker_end(&native);
                worker_end(&layer);
                sum.n += counter(counters, "launches ");
                sum.tracked += counter(counters, "tracked ");
        }
        return sum;
}

/* With an open gate. Returns whether both stayed within the bound, in this try. */
static bool run_open(const char *layer_path, const char *counters, size_t pairs) {
        Series finish = series_make("gate open: launch+finish", false, pairs);
        Series pipeline = series_make("gate open: pipelined", true, pairs);

        Launches l = run_rounds(&finish, &pipeline, layer_path, counters, pairs);
        CHECK(l.n > pipeline.n * PIPELINE_LAUNCHES);
        CHECK(l.tracked == 0);
        double a = series_end(&finish), b = series_end(&pipeline);
        return a <= BOUND && b <= BOUND;
}

static void run_tracked(const char *layer_path, const char *counters, size_t pairs) {
        char line[16];
        Series finish = series_make("watched: launch+finish", false, pairs);
        Series pipeline = series_make("watched: pipelined", true, pairs);
        Worker bystander = worker_start("bystander", layer_path, NULL);

        CHECK(fgets(line, sizeof(line), bystander.from));
        Launches l = run_rounds(&finish, &pipeline, layer_path, counters, pairs);
        CHECK(kill(bystander.pid, SIGKILL) == 0 && waitpid(bystander.pid, NULL, 0) == bystander.pid);
        (void) series_end(&finish);
        (void) series_end(&pipeline);
        printf("of %" PRIu64 " launches %" PRIu64 " were tracked\n", l.n, l.tracked);
}

int main(int argc, char **argv) {
        size_t pairs = 400;
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
        if (!layer || pairs < ROUNDS) {
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
