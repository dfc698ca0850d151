/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A program that uses CUDA in all the ways that programs do, and prints the results
 *
 * app linked|dlsym|proc [CASE...|SPECIAL]: how it finds the launching functions: as symbols that it is linked with,
 * by dlsym() on the handle of libcuda, or by cuGetProcAddress(). What it prints is the same natively and under the
 * layer. The file that TEST_COUNTERS names gets how many launches there were by libcuda's own count, and how many the
 * layer counted.
 *
 * app time USEC: launches and waits until its standard input ends; says then how many kernels it has run. app deep
 * USEC: the same without waiting but for every hundredth. app left USEC: as deep, until it has a line of input; then it
 * leaves a launch, waits for what was launched, and says so. app refused USEC: as deep, until it has a line of input;
 * then a launch stays in flight, and the driver refuses to destroy its context, which the program says; app green USEC:
 * the same in a green context; app destroyed USEC: it is destroyed, with that in flight. app gate USEC: as deep, until
 * it has a line of input; then a handler of SIGUSR1 jumps out of a launch that waits.
 */

#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app.h"

AppFunctions cu;
void *triple;
struct Context *context;

static void find_functions(const char *how) {
        void *library = dlopen("libcuda.so.1", RTLD_NOW), *f;
        int status;

        CHECK(library);
        if (strcmp(how, "linked") == 0) {
                cu.kernel = cuLaunchKernel;
                cu.kernel_ptsz = cuLaunchKernel_ptsz;
                cu.kernel_ex = cuLaunchKernelEx;
                cu.multi = cuLaunchCooperativeKernelMultiDevice;
                cu.graph = cuGraphLaunch;
                cu.wait = cuStreamSynchronize;
                cu.copy = cuMemcpyDtoHAsync_v2;
                cu.alloc = cuMemAlloc_v2;
                return;
        }
#define FIND(member, name, plain, flags)                                                                               \
        if (strcmp(how, "dlsym") == 0)                                                                                 \
                f = dlsym(library, name);                                                                              \
        else                                                                                                           \
                CHECK(cuGetProcAddress_v2(plain, &f, 12000, flags, &status) == 0 && status == 0);                      \
        CHECK(f);                                                                                                      \
        CHECK(!dlerror());                                                                                             \
        cu.member = (typeof(cu.member)) (uintptr_t) f
        FIND(kernel, "cuLaunchKernel", "cuLaunchKernel", 0);
        FIND(kernel_ptsz, "cuLaunchKernel_ptsz", "cuLaunchKernel", 2);
        FIND(kernel_ex, "cuLaunchKernelEx", "cuLaunchKernelEx", 0);
        FIND(tomorrow, "cuLaunchOfTomorrow", "cuLaunchOfTomorrow", 0);
        FIND(capture_of_tomorrow, "cuStreamBeginCaptureOfTomorrow", "cuStreamBeginCaptureOfTomorrow", 0);
        FIND(multi, "cuLaunchCooperativeKernelMultiDevice", "cuLaunchCooperativeKernelMultiDevice", 0);
        FIND(graph, "cuGraphLaunch", "cuGraphLaunch", 0);
        FIND(wait, "cuStreamSynchronize", "cuStreamSynchronize", 0);
        FIND(copy, "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoHAsync", 0);
        FIND(alloc, "cuMemAlloc_v2", "cuMemAlloc", 0);
}

uint64_t memory(void) {
        uint64_t p;
        CHECK(cu.alloc(&p, N * sizeof(int)) == 0);
        return p;
}

int launch_on(FakeStream s, uint64_t p, int k, uint64_t ns) {
        int *a = (int *) (uintptr_t) p;
        unsigned n = N;
        void *params[] = {&a, &k, &n, &ns};
        return cu.kernel(triple, 1, 1, 1, N, 1, 1, 0, s, params, NULL);
}

unsigned sum(uint64_t p, FakeStream s) {
        int a[N];
        unsigned sum = 0;
        CHECK(cu.copy(a, p, sizeof(a), s) == 0);
        CHECK(cu.wait(s) == 0);
        for (unsigned i = 0; i < N; i++)
                sum = sum * 31 + (unsigned) a[i];
        return sum;
}

FakeStream stream(void) {
        struct Stream *s;
        CHECK(cuStreamCreate(&s, 1) == 0);
        return s;
}

/* --- cases --- */

static void case_streams(void) {
        FakeStream s[3] = {stream(), stream(), stream()};
        uint64_t p[3] = {memory(), memory(), memory()};

        for (int k = 0; k < 200; k++)
                for (int i = 0; i < 3; i++) {
                        CHECK(launch_on(s[i], p[i], k + i, k % 50 == 0 ? 200000 : 0) == 0);
                        if (k % 40 == i)
                                CHECK(cu.wait(s[i]) == 0);
                }
        for (int i = 0; i < 3; i++)
                printf("streams %d %08x\n", i, sum(p[i], s[i]));
        for (int i = 0; i < 3; i++)
                CHECK(cuStreamDestroy_v2(s[i]) == 0);
}

static void case_defaults(void) {
        uint64_t p = memory();
        struct Context *other;
        int *a = (int *) (uintptr_t) p, k = 7;
        unsigned n = N;
        uint64_t ns = 0;
        void *params[] = {&a, &k, &n, &ns};
        FakeLaunchConfig config = {.grid = {1, 1, 1}, .block = {N, 1, 1}};

        for (int i = 0; i < 100; i++)
                CHECK(launch_on(i % 2 ? NULL : (FakeStream) (uintptr_t) 1, p, i, 0) == 0);
        CHECK(cu.kernel_ex(&config, triple, params, NULL) == 0);
        CHECK(cuCtxSynchronize() == 0);
        printf("default %08x\n", sum(p, NULL));

        for (int i = 0; i < 50; i++)
                CHECK(cu.kernel_ptsz(triple, 1, 1, 1, N, 1, 1, 0, NULL, params, NULL) == 0);
        CHECK(cuStreamSynchronize_ptsz(NULL) == 0);
        CHECK(launch_on((FakeStream) (uintptr_t) 2, p, 1, 0) == 0);
        CHECK(cuStreamSynchronize_ptsz(NULL) == 0);
        printf("per thread %08x\n", sum(p, NULL));

        /* Another context has a default stream of its own, and is destroyed with work on it. */
        CHECK(cuCtxCreate_v2(&other, 0, 1) == 0);
        for (int i = 0; i < 20; i++)
                CHECK(launch_on(NULL, p, i, 0) == 0);
        FakeStream s = stream();
        CHECK(launch_on(s, memory(), 1, 1000000) == 0);
        printf("other context %08x\n", sum(p, NULL));
        CHECK(cuCtxDestroy_v2(other) == 0);
        CHECK(cuCtxSetCurrent(NULL) == 0);
        printf("no context %d\n", launch_on(NULL, p, 1, 0));
        CHECK(cuCtxSetCurrent(context) == 0);
}

static void *thread_main(void *userdata) {
        uint64_t p = memory();
        FakeStream s = userdata;

        CHECK(cuCtxSetCurrent(context) == 0);
        for (int i = 0; i < 300; i++)
                CHECK(launch_on(s, p, i, 0) == 0);
        return (void *) (uintptr_t) p;
}

static void case_threads(void) {
        pthread_t t[4];
        void *p;
        FakeStream s[4] = {stream(), stream(), (FakeStream) (uintptr_t) 2, (FakeStream) (uintptr_t) 2};

        for (int i = 0; i < 4; i++)
                CHECK(pthread_create(&t[i], NULL, thread_main, s[i]) == 0);
        for (int i = 0; i < 4; i++) {
                CHECK(pthread_join(t[i], &p) == 0);
                if (i < 2)
                        printf("thread %d %08x\n", i, sum((uintptr_t) p, s[i]));
        }
}

static void case_errors(void) {
        FakeStream s = stream();
        uint64_t p = memory(), q = memory(), ns = 0;
        int *a = (int *) (uintptr_t) p, *b = (int *) (uintptr_t) q, k = 1;
        unsigned n = N;
        void *params[] = {&a, &k, &n, &ns}, *others[] = {&b, &k, &n, &ns}, *nothing = NULL;
        int status = 0;

        for (int i = 0; i < 20; i++)
                printf("no function %d\n", cu.kernel(NULL, 1, 1, 1, N, 1, 1, 0, s, params, NULL));
        printf("good %d %08x\n", launch_on(s, p, 1, 0), sum(p, s));
        printf("much memory %d\n", cu.alloc(&q, MUCH));
        printf("no name %d %d", cuGetProcAddress_v2("cuNothing", &nothing, 12000, 0, &status), status);
        printf(" %d\n", nothing == NULL);

        /* As two devices would. */
        FakeLaunchParams list[2] = {
                        {.function = triple, .stream = s, .params = params},
                        {.function = triple, .stream = stream(), .params = others},
        };
        printf("several %d\n", cu.multi(list, 2, 0));
        CHECK(cuCtxSynchronize() == 0);
}

static void case_destroy(void) {
        uint64_t p = memory();

        for (int i = 0; i < 100; i++) {
                FakeStream s = stream();
                for (int k = 0; k < 5; k++)
                        CHECK(launch_on(s, p, i + k, 0) == 0);
                CHECK(cuStreamDestroy_v2(s) == 0);
        }
        printf("destroyed %08x\n", sum(p, NULL));
}

/* Another user of the primary context retains and releases it. */
static void case_primary(void) {
        struct Context *same;
        FakeStream s = stream();
        uint64_t p = memory(), other = memory();

        for (int i = 0; i < 20; i++) {
                CHECK(launch_on(s, p, i, 500000) == 0);
                CHECK(cuDevicePrimaryCtxRetain(&same, 0) == 0 && same == context);
                CHECK(launch_on(NULL, other, i, 0) == 0);
                CHECK(cuDevicePrimaryCtxRelease_v2(0) == 0);
        }
        CHECK(cuCtxSynchronize() == 0);
        printf("primary %08x %08x\n", sum(p, s), sum(other, NULL));
}

/* Everything of the primary context ends with work in flight, and it is used again. */
static void case_reset(void) {
        for (int i = 0; i < 5; i++) {
                FakeStream s = stream();
                uint64_t p = memory(), q = memory();
                struct Context *same;
                for (int k = 0; k < 20; k++) {
                        CHECK(launch_on(s, p, k, 200000) == 0);
                        CHECK(launch_on(NULL, q, k, 0) == 0);
                }
                CHECK((i % 2 ? cuDevicePrimaryCtxReset_v2(0) : cuCtxDestroy_v2(context)) == (i % 2 ? 0 : 201));
                CHECK(cuDevicePrimaryCtxRetain(&same, 0) == 0 && same == context);
                printf("reset %08x\n", sum(q, NULL));
                CHECK(launch_on(NULL, q, 1, 0) == 0);
        }
}

static struct Event *asked;

/* A host function must not ask the driver anything: its calls get errors. */
static void host_function(void *userdata) {
        CHECK(cuEventSynchronize(asked) == 800);
        (*(int *) userdata)++;
}

static void case_others(void) {
        FakeStream s = stream();
        struct Event *e;
        uint64_t p = memory();
        int called = 0, a[N] = {3, 1, 4};

        CHECK(cuEventCreate(&e, 0) == 0);
        CHECK(cuEventCreate(&asked, 0) == 0);
        CHECK(cuMemcpyHtoDAsync_v2(p, a, sizeof(a), s) == 0);
        for (int i = 0; i < 30; i++) {
                CHECK(launch_on(s, p, i, 0) == 0);
                CHECK(cuLaunchHostFunc(s, host_function, &called) == 0);
                CHECK(cuEventRecord(e, s) == 0);
        }
        CHECK(cuEventSynchronize(e) == 0);
        printf("host functions %d query %d\n", called, cuEventQuery(e));
        CHECK(cuStreamWaitEvent(s, e, 0) == 0);
        printf("others %08x\n", sum(p, s));
        CHECK(cuMemsetD8Async(p, 1, sizeof(a), s) == 0);
        printf("set %08x\n", sum(p, s));
        CHECK(cuMemcpyDtoH_v2(a, p, sizeof(a)) == 0);
        CHECK(cuEventDestroy_v2(e) == 0);
}

/* --- handlers that do not come back --- */

#define JUMPS 64

static sigjmp_buf back;
static pthread_t jumper;
static volatile unsigned long before_launch;
static volatile bool jumps_in_record, waits;

static void jump(int sig) {
        siglongjmp(back, 1);
}

/* Jumps after the launch itself was made. What is left before that: app-left.c. */
static void jump_out(bool record) {
        if (pthread_equal(pthread_self(), jumper) && record == jumps_in_record &&
                        (record ? fake_cuda_launches() > before_launch : waits)) {
                fake_cuda_on_event(NULL);
                (void) raise(SIGUSR1);
        }
}

static void *launching_main(void *userdata) {
        uint64_t p = memory();

        CHECK(cuCtxSetCurrent(context) == 0);
        for (int i = 0; i < 20; i++)
                CHECK(launch_on(userdata, p, i, 0) == 0);
        CHECK(cu.wait(userdata) == 0);
        return (void *) (uintptr_t) p;
}

/* Launches and waits until a signal handler jumps out of it, and after that. Natively no handler jumps. */
static void jump_about(FakeStream s, uint64_t p) {
        static volatile int i;

        i = 0;
        fake_cuda_on_event(jump_out);
        (void) sigsetjmp(back, 1);
        while (i < JUMPS) {
                int k = i++;
                waits = false;
                before_launch = fake_cuda_launches();
                CHECK(launch_on(s, p, k, k % 16 == 0 ? 200000 : 0) == 0);
                waits = true;
                if (k % 8 == 0)
                        CHECK(cuCtxSynchronize() == 0);
        }
        fake_cuda_on_event(NULL);
}

static void case_jumps(void) {
        struct sigaction sa = {.sa_handler = jump}, before;

        CHECK(sigaction(SIGUSR1, &sa, &before) == 0);
        jumper = pthread_self();
        for (int how = 0; how < 4; how++) {
                FakeStream s = stream();
                uint64_t p = memory();
                pthread_t t;
                void *other;
                jumps_in_record = how & 1;
                jump_about(s, p);
                /* Launches come from another thread and from the one that jumped, in both orders. */
                for (int i = 0; how & 2 && i < 20; i++)
                        CHECK(launch_on(s, p, i, 0) == 0);
                CHECK(pthread_create(&t, NULL, launching_main, s) == 0);
                CHECK(pthread_join(t, &other) == 0);
                for (int i = 0; i < 20; i++)
                        CHECK(launch_on(s, p, i, 0) == 0);
                int mode = 2;
                CHECK(cuThreadExchangeStreamCaptureMode(&mode) == 0);
                printf("mode %d\n", mode);
                CHECK(cuThreadExchangeStreamCaptureMode(&mode) == 0);
                printf("jumps %d %08x %08x\n", how, sum((uintptr_t) other, s), sum(p, s));
                CHECK(cuStreamDestroy_v2(s) == 0);
        }
        CHECK(sigaction(SIGUSR1, &before, NULL) == 0);
}

static void case_unknown(void) {
        int k = 1;
        unsigned n = N;
        uint64_t p = memory(), ns = 0;
        int *a = (int *) (uintptr_t) p;
        void *params[] = {&a, &k, &n, &ns};
        FakeStream s = stream();

        for (unsigned i = 0; cu.tomorrow && i < 7; i++)
                CHECK(cu.tomorrow(s, triple, params) == 0);
        printf("unknown: %u\n", cu.tomorrow ? sum(p, s) : 0);
        case_unknown_captures();
}

static int status_of(pid_t pid) {
        int status;

        CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static volatile pid_t forked_within;
static bool forks_within;

/* On the thread that launches, which has the lock of a queue of the layer's. */
static void fork_within(bool record) {
        if (!forks_within || !pthread_equal(pthread_self(), jumper))
                return;
        forks_within = false;
        forked_within = fork();
        CHECK(forked_within >= 0);
}

/* The thread sanitizer lets no child make threads, as libxsched does. */
#ifdef __SANITIZE_THREAD__
#        define FORKS_WITHIN false
#else
#        define FORKS_WITHIN true
#endif

/* The child returns from the launch that it was made in. */
static void fork_in_launches(FakeStream s, uint64_t p) {
        jumper = pthread_self();
        forks_within = FORKS_WITHIN;
        forked_within = -1;
        fake_cuda_on_event(fork_within);
        for (int i = 0; i < 40; i++) {
                int r = launch_on(s, p, i, 0);
                if (forked_within == 0)
                        exit((r == 0 || r == 3) && launch_on(s, p, i, 0) == 3 && cu.wait(s) == 3 ? 9 : 1);
                CHECK(r == 0);
        }
        fake_cuda_on_event(NULL);
        if (forked_within > 0)
                CHECK(status_of(forked_within) == 9);
}

static void case_fork(void) {
        FakeStream s = stream();
        uint64_t p = memory();

        CHECK(launch_on(s, p, 1, 200000) == 0);
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
                printf("child %d", launch_on(s, p, 1, 0));
                printf(" %d", launch_on(NULL, p, 1, 0));
                printf(" %d %d\n", cu.wait(s), cuCtxSynchronize());
                exit(7);
        }
        printf("forked %d\n", status_of(pid));
        fflush(stdout);
        fork_in_launches(s, p);
        CHECK(cu.wait(s) == 0);
}

typedef struct AppCase {
        const char *name;
        void (*f)(void);
} AppCase;

static const AppCase cases[] = {
                {"cancelled", case_cancelled}, /* the first launch */
                {"streams", case_streams},
                {"elsewhere", case_elsewhere},
                {"defaults", case_defaults},
                {"threads", case_threads},
                {"captures", case_captures},
                {"capturers", case_capturers},
                {"per-thread-captures", case_per_thread_captures},
                {"recaptures", case_recaptures},
                {"refused-captures", case_refused_captures},
                {"cig", case_cig},
                {"primary", case_primary},
                {"reset", case_reset},
                {"green", case_green},
                {"green-threads", case_green_threads},
                {"green-reset", case_green_reset},
                {"errors", case_errors},
                {"destroy", case_destroy},
                {"others", case_others},
                {"jumps", case_jumps},
                {"left", case_left},
                {"unknown", case_unknown},
                {"fork", case_fork},
};

/* Where they are asked for. */
static const AppCase special[] = {
                {"behind", case_behind},
                {"capture-cost", case_capture_cost},
                {"locks", case_locks},
                {"steps", case_steps},
};

static void report(void) {
        static const char *const launches[] = {
                        "cuGraphLaunch",
                        "cuLaunchCooperativeKernelMultiDevice",
                        "cuLaunchKernel",
                        "cuLaunchKernelEx",
                        "cuLaunchKernel_ptsz",
        };
        static const char tomorrow[] = "cuLaunchOfTomorrow";
        static const char *const of_others[] = {"fake_other_launches", "fake_other_refused"};
        const char *path = getenv("TEST_COUNTERS");
        uint64_t (*count)(const char *) =
                        (uint64_t(*)(const char *))(uintptr_t) dlsym(RTLD_DEFAULT, "xsched_cuda_count");
        FILE *f = path ? fopen(path, "we") : NULL;

        if (!f)
                return;
        fprintf(f, "launches %lu\ncaptured %lu\nleft %lu\n", fake_cuda_launches(), fake_cuda_captured(), n_left);
        for (size_t i = 0; i < sizeof(of_others) / sizeof(of_others[0]); i++) {
                unsigned long (*other)(void) = (unsigned long (*)(void))(uintptr_t) dlsym(RTLD_DEFAULT, of_others[i]);
                fprintf(f, "%s %lu\n", of_others[i], other ? other() : 0);
        }
        uint64_t n = 0;
        for (size_t i = 0; count && i < sizeof(launches) / sizeof(launches[0]); i++)
                n += count(launches[i]);
        if (count && count(tomorrow) != UINT64_MAX)
                n += count(tomorrow);
        fprintf(f, "layer %d\ncounted %lu\n", count != NULL, n);
        if (count)
                fprintf(f, "copies %lu\nhosts %lu\nnothing %d\n", count("cuMemcpyDtoHAsync_v2"),
                                count("cuLaunchHostFunc"), count("cuNothing") == UINT64_MAX);
        fclose(f);
}

/* `green`: the stream's, if it has one. */
static void be_refused(FakeStream s, uint64_t p, struct Context *green) {
        sem_t go_on;

        await_line();
        CHECK(cu.wait(s) == 0);
        CHECK(sem_init(&go_on, 0, 0) == 0);
        CHECK(cuLaunchHostFunc(s, wait_at_host, &go_on) == 0);
        CHECK(launch_on(s, p, 1, 0) == 0);
        fake_cuda_refuse_green(true);
        CHECK((green ? cuGreenCtxDestroy(green) : cuCtxDestroy_v2(context)) == 201);
        puts("refused");
        fflush(stdout);
        await_line();
        CHECK(sem_post(&go_on) == 0);
        CHECK(cu.wait(s) == 0);
        puts("done");
        fflush(stdout);
        while (getchar() != EOF)
                ;
}

static void work(uint64_t ns, int every, const char *then) {
        bool is_destroyed = strcmp(then, "destroyed") == 0;
        struct Context *green = is_destroyed || strcmp(then, "green") == 0 ? green_new(0) : NULL;
        FakeStream s = green ? green_stream(green) : stream();
        uint64_t p = memory();
        unsigned long n = 0;

        puts("ready");
        fflush(stdout);
        for (struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN}; poll(&input, 1, 0) == 0;) {
                CHECK(launch_on(s, p, 1, ns) == 0);
                if (++n % (unsigned long) every == 0)
                        CHECK(cu.wait(s) == 0);
        }
        if (is_destroyed)
                be_destroyed(s, green);
        else if (green || strcmp(then, "refused") == 0)
                be_refused(s, p, green);
        if (strcmp(then, "gate") == 0)
                leave_the_gate(s, p);
        if (strcmp(then, "behind") == 0)
                behind_and_beside(s, p);
        if (strcmp(then, "left") == 0) {
                leave_one(s, p);
                CHECK(cu.wait(s) == 0);
                puts("left");
                fflush(stdout);
                while (getchar() != EOF)
                        ;
        }
        CHECK(is_destroyed || cu.wait(s) == 0);
        printf("%lu\n", n);
}

int main(int argc, char **argv) {
        static const char *const workers[] = {
                        "time", "deep", "left", "refused", "green", "destroyed", "gate", "behind"};
        bool works = false;

        CHECK(argc >= 2);
        for (size_t i = 0; argc == 3 && i < sizeof(workers) / sizeof(workers[0]); i++)
                works = works || strcmp(argv[1], workers[i]) == 0;
        CHECK(cuInit(0) == 0);
        CHECK(cuDevicePrimaryCtxRetain(&context, 0) == 0);
        CHECK(cuCtxSetCurrent(context) == 0);
        CHECK(cuModuleGetFunction(&triple, NULL, "triple") == 0);
        find_functions(works ? "proc" : argv[1]);
        if (works) {
                work(strtoull(argv[2], NULL, 10) * 1000, strcmp(argv[1], "time") == 0 ? 1 : 100, argv[1]);
                return 0;
        }
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                bool wanted = argc == 2;
                for (int k = 2; k < argc; k++)
                        wanted = wanted || strcmp(argv[k], cases[i].name) == 0;
                if (wanted)
                        cases[i].f();
        }
        for (size_t i = 0; argc == 3 && i < sizeof(special) / sizeof(special[0]); i++)
                if (strcmp(argv[2], special[i].name) == 0)
                        special[i].f();
        if (argc == 3) {
                case_green_special(argv[2]);
                case_end_special(argv[2]);
        }
        report();
        return 0;
}
