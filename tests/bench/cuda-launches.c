/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * For bench-cuda-launch.py: launches tiny kernels by libcuda's own functions
 *
 * Reads "finish N" and "pipelined N", and answers with the nanoseconds that N launches took, waited for one by one or
 * all together. At the end the results are checked, and the layer's count of launches, if it is loaded: "counted".
 *
 * "compare open|watched finish|pipelined N PAIRS FD", with the layer: such turns in pairs, one through the layer and
 * one by addresses in libcuda, which the layer does not see; answered with a line "NATIVE LAYER" for each pair. A pair
 * in whose native turn libxsched's thread ran is made again, and so is one that took too long for the queue to stay
 * watched. If it is watched, another one of these programs is there, which is told in front of each turn, by
 * "bystander" to FD, to launch once: it is not answered. The program fails unless of each turn through the layer all
 * launches passed the gate, all of them tracked if it is watched and none if it is open; and of native turns none.
 */

#include <dirent.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <time.h>
#include <unistd.h>

#include "common/time-util.h"
#include "include/xsched/xsched.h"
#include "tools/demo/cuda-driver.h"

#define WATCHED_NS  (100 * NSEC_PER_MSEC)  /* who launches alone for longer is not watched: ARBITER_SETTLE_NS */
#define IDLE_NS     (1500 * NSEC_PER_USEC) /* the layer looks within a millisecond after a launch */
#define IDLE_TRIES  1000U
#define READY_TRIES 10000U
#define COUNT_TRIES 100U
#define WARM_UP     100U

static CudaMemory memory;
static const uint32_t first = 0; /* is copied later */
static uint32_t expected;
static uint64_t n_native;

static void launch(void) {
        cuda_scale(memory, 1, 3, 1);
        expected = 3 * expected + 1;
}

static uint64_t turn(bool pipelined, unsigned n) {
        uint64_t start = now_ns();

        for (unsigned i = 0; i < n; i++) {
                launch();
                if (!pipelined)
                        CUDA_CHECK(cuda.wait(cuda_stream));
        }
        CUDA_CHECK(cuda.wait(cuda_stream));
        return now_ns() - start;
}

/* --- native turns beside the layer --- */

static CudaDriver layer, native;

/* libc's own dlsym(), which the layer has another one in front of. */
static void *real_dlsym(void *library, const char *name) {
        static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5"};
        void *(*f)(void *library, const char *name) = NULL;

        for (size_t i = 0; !f && i < ELEMENTSOF(versions); i++)
                *(void **) &f = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
        return f ? f(library, name) : NULL;
}

static bool is_libcuda(const void *address) {
        Dl_info info;
        const char *slash = address && dladdr(address, &info) ? strrchr(info.dli_fname, '/') : NULL;

        return slash && startswith(slash + 1, "libcuda.so");
}

static void find_native(void) {
        void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

        layer = native = cuda;
        *(void **) &native.launch = real_dlsym(library, "cuLaunchKernel");
        *(void **) &native.wait = real_dlsym(library, "cuStreamSynchronize");
        if (!is_libcuda(*(void **) &native.launch) || !is_libcuda(*(void **) &native.wait))
                cuda_die("there are no addresses in libcuda");
        if (is_libcuda(*(void **) &layer.launch) || is_libcuda(*(void **) &layer.wait))
                cuda_die("the layer is not there");
}

static XschedCounters counters(void) {
        XschedCounters c = {.size = sizeof(c)};
        static int (*get)(XschedCounters * ret);

        if (!get) {
                void *library = dlopen("libxsched.so.0", RTLD_LAZY | RTLD_NOLOAD);
                *(void **) &get = library ? dlsym(library, "xsched_get_counters") : NULL;
        }
        if (!get || get(&c) < 0)
                cuda_die("libxsched is not there");
        return c;
}

typedef struct Turn {
        uint64_t took;
        bool ran; /* libxsched's thread ran meanwhile */
} Turn;

/* The clock of libxsched's thread: how long it has run. */
static clockid_t thread_clock(void) {
        char path[300], name[16];
        DIR *d = opendir("/proc/self/task");
        int tid = 0;

        for (struct dirent *e; d && tid == 0 && (e = readdir(d));) {
                (void) snprintf(path, sizeof(path), "/proc/self/task/%s/comm", e->d_name);
                FILE *f = fopen(path, "re");
                if (f && fgets(name, sizeof(name), f) && streq(name, "xsched\n"))
                        tid = atoi(e->d_name);
                if (f)
                        (void) fclose(f);
        }
        if (d)
                (void) closedir(d);
        if (tid == 0)
                cuda_die("libxsched has no thread");
        return (clockid_t) ((~(unsigned) tid << 3) | 6U); /* as pthread_getcpuclockid() makes it */
}

static uint64_t ran_ns(clockid_t clock) {
        struct timespec t;

        if (clock_gettime(clock, &t) < 0)
                cuda_die("libxsched's thread: %m");
        return (uint64_t) t.tv_sec * NSEC_PER_SEC + (uint64_t) t.tv_nsec;
}

static void pause_for(uint64_t ns) {
        const struct timespec t = ns_to_timespec(ns);

        (void) nanosleep(&t, NULL);
}

/* Nothing is in flight: the last turn has waited for its launches. */
static void await_idle_thread(clockid_t clock) {
        for (unsigned i = 0; i < IDLE_TRIES; i++) {
                uint64_t before = ran_ns(clock);
                pause_for(IDLE_NS);
                if (ran_ns(clock) == before)
                        return;
        }
        cuda_die("libxsched's thread is never idle");
}

/* -1: there is none, and the gate is open. */
static int bystander_fd;

static void have_bystander_launch(void) {
        static const char line[] = "bystander\n";

        if (bystander_fd >= 0 && write(bystander_fd, line, strlen(line)) < 0)
                cuda_die("the bystander: %m");
}

/* The process is attached, and watched or not. */
static void await_ready(bool watched) {
        for (unsigned i = 0; i < READY_TRIES; i++) {
                have_bystander_launch();
                XschedCounters before = counters();
                (void) turn(false, 1);
                XschedCounters now = counters();
                if (now.state == XSCHED_STATE_ATTACHED && (now.tracked > before.tracked) == watched)
                        return;
                pause_for(NSEC_PER_MSEC);
        }
        cuda_die("the gate is never %s", watched ? "watched" : "open");
}

static uint64_t native_turn(bool pipelined, unsigned n) {
        cuda = native;
        uint64_t took = turn(pipelined, n);
        cuda = layer;
        n_native += n;
        return took;
}

/* What the gate has seen of n launches. The last ones may be counted a moment later, by libxsched's thread. Returns
 * false if some were not tracked and `excused`. */
static bool check_counts(
                const XschedCounters *before, const char *kind, unsigned n, bool passes, bool tracked, bool excused) {
        uint64_t seen = 0, n_tracked = 0;

        for (unsigned i = 0; i < COUNT_TRIES; i++) {
                XschedCounters now = counters();
                seen = now.launches - before->launches;
                n_tracked = now.tracked - before->tracked;
                if (seen == (passes ? n : 0) && n_tracked == (tracked ? n : 0))
                        return true;
                pause_for(NSEC_PER_MSEC);
        }
        if (excused && seen == n && n_tracked < n)
                return false;
        cuda_die("of %u launches of a turn that is %s %" PRIu64 " passed the gate, and %" PRIu64 " were tracked", n,
                        kind, seen, n_tracked);
}

/* Both kinds of turns come after the same: the bystander's launch, an idle thread of libxsched's, which is waited for
 * for longer than such a launch takes, and some native launches. Returns false if it took so long, as where the machine
 * kept the program, that the queue was not watched until its end. */
static bool checked_turn(clockid_t clock, bool is_native, bool watched, bool pipelined, unsigned n, Turn *ret) {
        uint64_t begun = now_ns();

        have_bystander_launch();
        await_idle_thread(clock);
        (void) native_turn(true, WARM_UP);
        uint64_t ran = ran_ns(clock);
        XschedCounters before = counters();
        ret->took = is_native ? native_turn(pipelined, n) : turn(pipelined, n);
        ret->ran = ran_ns(clock) != ran;
        if (is_native)
                return check_counts(&before, "native", n, false, false, false);
        bool excused = watched && now_ns() - begun >= WATCHED_NS;
        bool good = check_counts(&before, watched ? "watched" : "open", n, true, watched, excused);
        if (excused)
                await_ready(true);
        return good;
}

/* Returns false if the pair is to be made again. */
static bool compare_pair(clockid_t clock, bool native_first, bool watched, bool pipelined, unsigned n) {
        Turn turns[2];

        for (unsigned k = 0; k < 2; k++) {
                bool is_native = native_first == (k == 0);
                if (!checked_turn(clock, is_native, watched, pipelined, n, &turns[is_native]))
                        return false;
        }
        if (turns[true].ran)
                return false;
        printf("%" PRIu64 " %" PRIu64 "\n", turns[true].took, turns[false].took);
        return true;
}

static void compare(bool watched, bool pipelined, unsigned n, unsigned pairs) {
        if (!native.launch)
                find_native();
        await_ready(watched);
        clockid_t clock = thread_clock();
        /* The order changes, so that each gains as often from what the other leaves behind. */
        for (unsigned i = 0, tries = 0; i < pairs; tries++) {
                if (tries > 20 + 10 * pairs)
                        cuda_die("libxsched's thread runs in native turns, or turns take too long");
                i += compare_pair(clock, i % 2 == 0, watched, pipelined, n);
        }
}

static void obey(const char *line) {
        char gate[16], how[16];
        unsigned n, pairs;

        if (startswith(line, "bystander"))
                (void) turn(false, 1);
        else if (sscanf(line, "finish %u", &n) == 1)
                printf("%" PRIu64 "\n", turn(false, n));
        else if (sscanf(line, "pipelined %u", &n) == 1)
                printf("%" PRIu64 "\n", turn(true, n));
        else if (sscanf(line, "compare %15s %15s %u %u %d", gate, how, &n, &pairs, &bystander_fd) == 5)
                compare(streq(gate, "watched"), streq(how, "pipelined"), n, pairs);
        (void) fflush(stdout);
}

int main(void) {
        char line[64];
        uint32_t got;

        cuda_open();
        memory = cuda_put(&first, 1);
        (void) turn(true, 100);
        puts(cuda_device_name);
        (void) fflush(stdout);
        while (fgets(line, sizeof(line), stdin))
                obey(line);
        cuda_get(&got, memory, 1);
        if (got != expected)
                cuda_die("the result is %u, not %u", got, expected);
        uint64_t n = cuda_n_launches - n_native;
        if (cuda_n_seen() >= 0 && cuda_n_seen() != (int64_t) n)
                cuda_die("of %" PRIu64 " launches the layer has seen %" PRId64, n, cuda_n_seen());
        return 0;
}
