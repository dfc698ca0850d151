/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the CUDA layer does at a launch of a short kernel: instructions, looks at the clock, locks, and calls of the
 * driver, by the launching thread and by the control thread
 *
 * The layer and the gate are the real ones. The driver and the clock are not (counted-cuda.h), and the control thread's
 * looks are made by this program, between two launches, when they are due. So the figures are the same on each run and
 * on each machine. The program launches without pause and waits now and then, or after each launch ("-finish"), as that
 * of bench-cuda-launch.py does; the service says what it says while another one is there. valgrind counts the
 * instructions, without those of the driver and the clock. What these take is added up as on an H200.
 *
 *     bench-launch-path-cuda [--check]         --check: fails if a figure is larger than it should be, or if a drain
 *                                              waits for the end of a ride
 */

#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "callgrind.h"
#include "counted-cuda.h"
#include "shim/core/look.h"
#include "shim/cuda/cuda-abi.h"
#include "shim/cuda/cuda-queue.h"
#include "shim/late/late.h"
#include "tests/lib/fake-service.h"

#define CLOCK_NS   80U /* a look at the clock, on an H200's host */
#define N_LAUNCHES 1500U
#define N_WARM_UP  20U
#define N_TURNS    20U

#define N_LAUNCHES_ALL ((uint64_t) N_TURNS * N_LAUNCHES) /* of one measurement */

typedef struct Load {
        const char *name;
        bool default_stream;
        bool second_stream;                   /* begins later than the first, and then they take turns */
        bool finish;                          /* each launch is waited for */
        uint32_t kernel_ns[2];                /* in turns */
        uint32_t watch, threshold, budget_us; /* what the service says */
        unsigned most_instructions;           /* that the layer adds to a launch */
        unsigned most_ns;                     /* and of the driver and the clock */
} Load;

static const Load loads[] = {
                {
                                .name = "open",
                                .kernel_ns = {2000, 2000},
                                .most_instructions = 75,
                },
                /* The one that PyTorch uses: the layer has to ask for the context. */
                {
                                .name = "open-default",
                                .default_stream = true,
                                .kernel_ns = {2000, 2000},
                                .most_instructions = 170,
                },
                /* The device keeps up with the program. */
                {
                                .name = "watched",
                                .kernel_ns = {2000, 2000},
                                .watch = PAGE_WATCH_ALL,
                                .threshold = 1,
                                .budget_us = 200,
                                .most_instructions = 220,
                                .most_ns = 50,
                },
                {
                                .name = "watched-default",
                                .default_stream = true,
                                .kernel_ns = {2000, 2000},
                                .watch = PAGE_WATCH_ALL,
                                .threshold = 1,
                                .budget_us = 200,
                                .most_instructions = 315,
                                .most_ns = 50,
                },
                {
                                .name = "watched-first",
                                .kernel_ns = {2000, 2000},
                                .watch = PAGE_WATCH_ALL,
                                .most_instructions = 220,
                                .most_ns = 20,
                },
                {
                                .name = "watched-two",
                                .kernel_ns = {1000, 3000},
                                .watch = PAGE_WATCH_ALL,
                                .threshold = 1,
                                .budget_us = 200,
                                .most_instructions = 270,
                                .most_ns = 60,
                },
                {
                                .name = "watched-streams",
                                .second_stream = true,
                                .kernel_ns = {2000, 2000},
                                .watch = PAGE_WATCH_ALL,
                                .most_instructions = 230,
                                .most_ns = 25,
                },
                {
                                .name = "open-finish",
                                .finish = true,
                                .kernel_ns = {2000, 2000},
                                .most_instructions = 540,
                },
                {
                                .name = "watched-finish",
                                .finish = true,
                                .kernel_ns = {2000, 2000},
                                .watch = PAGE_WATCH_COUNTED,
                                .threshold = 1,
                                .budget_us = 200,
                                .most_instructions = 2450,
                                .most_ns = 200,
                },
                /* It does not: the program waits for it. */
                {
                                .name = "behind",
                                .kernel_ns = {10000, 10000},
                                .watch = PAGE_WATCH_ALL,
                                .threshold = 1,
                                .budget_us = 200,
                                .most_instructions = 3200,
                                .most_ns = 20,
                },
};

static struct {
        Control control;
        FakeService *service;
        bool looks;       /* the control thread does */
        uint64_t look_at; /* NSEC_INFINITY: it sleeps */
} world = {.look_at = NSEC_INFINITY};

typedef struct Counts {
        uint64_t clock, locks, looks, calls[_COUNTED_MAX], calls_by_looks[_COUNTED_MAX];
} Counts;

static Counts n;

#define SECOND_AFTER 230U /* launches: 0.9 ms */

static CudaStream stream_of(const Load *load, bool second) {
        return load->default_stream ? NULL : (CudaStream) (uintptr_t) (second ? 0x6000 : 0x5000);
}

/* --- time, locks, and the other thread --- */

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's names */
int __real_clock_gettime(clockid_t id, struct timespec *ret);
int __wrap_clock_gettime(clockid_t id, struct timespec *ret);
int __real_pthread_mutex_trylock(pthread_mutex_t *m);
int __wrap_pthread_mutex_trylock(pthread_mutex_t *m);
int __wrap_thread_start(void *(*start)(void *), void *userdata, size_t stack_size);
void __wrap_client_kick(void);

int __wrap_clock_gettime(clockid_t id, struct timespec *ret) {
        if (id != CLOCK_MONOTONIC)
                return __real_clock_gettime(id, ret);
        if (!world.looks) {
                n.clock++;
                counted_cuda.now_ns += CLOCK_NS;
        }
        *ret = ns_to_timespec(counted_cuda.now_ns);
        return 0;
}

/* The layer tries each lock before it waits. */
int __wrap_pthread_mutex_trylock(pthread_mutex_t *m) {
        n.locks += !world.looks;
        return __real_pthread_mutex_trylock(m);
}

/* libxsched starts no control thread. */
int __wrap_thread_start(void *(*start)(void *), void *userdata, size_t stack_size) {
        return -EAGAIN;
}

void __wrap_client_kick(void) {
        world.look_at = 0;
}
/* NOLINTEND(bugprone-reserved-identifier) */

/* libxsched is linked to this program. */
bool late_load(void) {
        return true;
}

/* Takes no time of the launching thread's. */
static _noinline_ void control_looks(void) {
        CountedCuda before = counted_cuda;

        world.looks = true;
        look_turn(&world.control);
        world.looks = false;
        n.looks++;
        for (CountedCall c = 0; c < _COUNTED_MAX; c++)
                n.calls_by_looks[c] += counted_cuda.n[c] - before.n[c];
        counted_cuda = before;
        world.look_at = look_next_ns(&world.control);
}

/* --- the program --- */

/* The layer's has another name here. */
uint64_t xsched_cuda_count(const char *name);
void *libc_dlsym(void *handle, const char *name) __asm__("dlsym");

typedef CudaResult (*Launch)(CudaFunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                unsigned bz, unsigned shared, CudaStream s, void **params, void **extra);
typedef CudaResult (*Wait)(CudaStream s);

typedef struct Program {
        const Load *load;
        volatile Launch launch;
        volatile Wait wait;
} Program;

static void launches(const Program *p, unsigned n_launches) {
        CudaStream streams[] = {stream_of(p->load, false), stream_of(p->load, p->load->second_stream)};

        for (unsigned k = 0; k < n_launches; k++) {
                if (counted_cuda.now_ns >= world.look_at)
                        control_looks();
                (void) p->launch((CudaFunction) (uintptr_t) p->load->kernel_ns[k % 2], 1, 1, 1, 1, 1, 1, 0,
                                streams[k >= SECOND_AFTER && k % 2], NULL, NULL);
                if (p->load->finish)
                        (void) p->wait(streams[0]);
        }
}

static void turns(const Program *p, unsigned n_turns) {
        CudaStream streams[] = {stream_of(p->load, false), stream_of(p->load, p->load->second_stream)};

        for (unsigned i = 0; i < n_turns; i++) {
                launches(p, N_LAUNCHES);
                (void) p->wait(streams[0]);
                if (p->load->second_stream)
                        (void) p->wait(streams[1]);
        }
}

/* What is counted. */
static _noinline_ void bench_launches(const Program *p) {
        turns(p, N_TURNS);
}

/* A queue gets a slot, and the service writes it. */
static bool attach_one(const Load *load, XschedQueue *q, uint32_t slot) {
        PageSlot *s = fake_slot(world.service, slot);

        if (gate_attach(&q->gate, &world.service->client, slot, world.service->wake) < 0)
                return false;
        atomic_store(&s->threshold, load->threshold);
        atomic_store(&s->budget_us, load->budget_us);
        page_slot_set_watch(s, load->watch);
        if (load->watch != 0 && gate_adopt(&q->gate))
                q->drain(q, q->userdata);
        return true;
}

static bool attach(const Load *load) {
        XschedQueue *first = cuda_queue_find(stream_of(load, false), false)->xq;

        world.service = fake_service_new();
        world.control.queues[QUEUE_ATTACHED] = first;
        if (!load->second_stream)
                return attach_one(load, first, 0);
        XschedQueue *second = cuda_queue_find(stream_of(load, true), false)->xq;
        first->next = second;
        return attach_one(load, first, 0) && attach_one(load, second, 1);
}

static uint64_t n_tracked(const Load *load) {
        uint64_t tracked = cuda_queue_find(stream_of(load, false), false)->xq->gate.tracked;

        return load->second_stream ? tracked + cuda_queue_find(stream_of(load, true), false)->xq->gate.tracked
                                   : tracked;
}

static Program program(const Load *load, bool native) {
        void *from = native ? dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) : RTLD_DEFAULT;

        return (Program){
                        .load = load,
                        .launch = (Launch) (uintptr_t) libc_dlsym(from, "cuLaunchKernel"),
                        .wait = (Wait) (uintptr_t) libc_dlsym(from, "cuStreamSynchronize"),
        };
}

/* Returns how many nanoseconds a launch takes; 0: not all were counted, or not all of them tracked. */
static double run(const Load *load, bool native) {
        Program p = program(load, native);

        turns(&p, 1);
        if (!native && !attach(load))
                return 0;
        turns(&p, N_WARM_UP);
        CountedCuda before = counted_cuda;
        uint64_t counted = xsched_cuda_count("cuLaunchKernel");
        n = (Counts){};
        bench_launches(&p);
        counted = xsched_cuda_count("cuLaunchKernel") - counted;
        for (CountedCall c = 0; c < _COUNTED_MAX; c++)
                n.calls[c] = counted_cuda.n[c] - before.n[c];
        if (!native) {
                if (counted != N_LAUNCHES_ALL || n_tracked(load) < (load->watch != 0 ? N_LAUNCHES_ALL : 0))
                        return 0;
        }
        return (double) (counted_cuda.now_ns - before.now_ns) / (double) N_LAUNCHES_ALL;
}

/* Counts the instructions of bench_launches(), but those of the driver, the clock and the control thread, in a run of
 * this program; 0: unknown. */
static double instructions(const Load *load, bool native) {
        char command[512];

        (void) snprintf(command, sizeof(command),
                        "valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect='bench_launches*' "
                        "--toggle-collect=driver_call --toggle-collect=driver_submit --toggle-collect=control_looks "
                        "--toggle-collect=__wrap_clock_gettime /proc/%d/exe %s %s 2>&1",
                        (int) getpid(), native ? "native" : "layer", load->name);
        return (double) callgrind_count(command, false) / (double) N_LAUNCHES_ALL;
}

static double percent(uint64_t count) {
        return (double) count * 100 / (double) N_LAUNCHES_ALL;
}

/* Returns whether all figures are as small as they should be. */
static bool report(const Load *load) {
        double native = instructions(load, true), layer = instructions(load, false);
        double native_ns = run(load, true), layer_ns = run(load, false);
        const uint64_t *c = n.calls, *by = n.calls_by_looks;

        printf("%-16s", load->name);
        if (native > 0 && layer > 0)
                printf("%4.0f instructions,", layer - native);
        if (layer_ns == 0) {
                puts(" not all launches were counted, or tracked");
                return false;
        }
        printf(" %.0f ns of the driver and the clock\n", layer_ns - native_ns);
        if (load->watch != 0)
                printf("  of 100: %.1f looks at the clock, %.1f locks, %.1f records, %.1f queries of events and %.1f "
                       "of the stream\n  %.1f times read; by the control thread %.2f looks, %.2f queries of events and "
                       "%.2f of the stream\n",
                                percent(n.clock), percent(n.locks), percent(c[COUNTED_RECORD]),
                                percent(c[COUNTED_EVENT_QUERY]), percent(c[COUNTED_STREAM_QUERY]),
                                percent(c[COUNTED_ELAPSED]), percent(n.looks), percent(by[COUNTED_EVENT_QUERY]),
                                percent(by[COUNTED_STREAM_QUERY]));
        (void) fflush(stdout);
        /* While the program launches, the control thread leaves the driver to it, and looks twice in 0.95 ms. */
        bool asks = percent(by[COUNTED_EVENT_QUERY] + by[COUNTED_STREAM_QUERY]) > 0.05;
        bool looks = (double) n.looks / (layer_ns * (double) N_LAUNCHES_ALL) > 2.3 / (double) NSEC_PER_MSEC;
        return layer - native <= load->most_instructions && layer_ns - native_ns <= load->most_ns && !asks && !looks;
}

/* The service begins to watch a queue with launches in flight, and others are on a ride already. The next one gets the
 * mark. */
static bool drain_ends_ride(void) {
        const Load load = {.kernel_ns = {2000, 2000}, .watch = PAGE_WATCH_ALL};
        Program p = program(&load, false);

        turns(&p, 1);
        if (!attach(&load))
                return false;
        turns(&p, 1);
        CudaQueue *q = cuda_queue_find(stream_of(&load, false), false);
        XschedQueue *xq = q->xq;
        launches(&p, N_LAUNCHES / 2);
        if (cuda_ride_field(cuda_ride_load(&q->ride), CUDA_RIDE_ROOM) < 2)
                return false;
        uint64_t n_records = counted_cuda.n[COUNTED_RECORD];
        atomic_fetch_or(&fake_slot(world.service, 0)->outstanding, PAGE_OUTSTANDING_UNTRACKED);
        if (!gate_wants_drain(&xq->gate) || !gate_adopt(&xq->gate))
                return false;
        xq->drain(xq, xq->userdata);
        launches(&p, 1);
        return counted_cuda.n[COUNTED_RECORD] == n_records + 1 && q->n_drains == 0;
}

int main(int argc, char *argv[]) {
        bool check = argc == 2 && streq(argv[1], "--check"), good = true;

        for (size_t i = 0; i < ELEMENTSOF(loads); i++) {
                const Load *load = loads + i;
                int status;

                if (argc == 3 && streq(argv[2], load->name))
                        return run(load, streq(argv[1], "native")) > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
                if (argc > 2)
                        continue;
                pid_t pid = fork();
                if (pid == 0)
                        exit(report(load) || !check ? EXIT_SUCCESS : EXIT_FAILURE);
                good = pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 && good;
        }
        if (check && !drain_ends_ride()) {
                puts("a drain waits for the end of a ride");
                good = false;
        }
        return good && argc <= 2 ? EXIT_SUCCESS : EXIT_FAILURE;
}
