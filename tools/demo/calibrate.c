/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Calibration
 *
 * The smallest of several means counts: whatever disturbs a measurement makes it longer. GPUs raise their clock while
 * they work, so the measurements go on for a while before they count.
 */

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>

#include "tools/demo/calibrate.h"
#include "tools/demo/child.h"
#include "tools/demo/sim.h"
#include "tools/demo/work.h"

#define BATCH        10U
#define WARM_UP_NS   (400 * NSEC_PER_MSEC)
#define N_MEASURE    8U
#define N_REFINE     12U
#define ROUNDS_FIRST 1000U
#define ROUNDS_MAX   (UINT32_C(1) << 30)
#define TIMEOUT_NS   (120 * NSEC_PER_SEC)

static int measure(Work *w, uint32_t rounds, uint64_t *ret_kernel_ns) {
        const char *error = NULL;
        uint64_t start = now_ns();

        int r = work_run(w, BATCH, rounds, &error);
        uint64_t end = now_ns();

        if (r >= 0)
                r = work_check(w, &error);
        if (r < 0)
                return demo_error(r, "calibration: %s", error);
        *ret_kernel_ns = MAX((end - start) / BATCH, UINT64_C(1));
        return 0;
}

static uint32_t scale(uint32_t rounds, uint64_t have_ns, uint64_t want_ns) {
        double factor = CLAMP((double) want_ns / (double) have_ns, 0.02, 50.0);

        return (uint32_t) CLAMP((double) rounds * factor, 1.0, (double) ROUNDS_MAX);
}

static int measure_best(Work *w, uint32_t rounds, uint64_t *ret_kernel_ns) {
        uint64_t best = UINT64_MAX, ns = UINT64_MAX;

        for (unsigned i = 0; i < N_MEASURE; i++) {
                int r = measure(w, rounds, &ns);
                if (r < 0)
                        return r;
                best = MIN(best, ns);
        }
        *ret_kernel_ns = best;
        return 0;
}

static bool is_close(uint64_t have_ns, uint64_t want_ns) {
        return have_ns > want_ns - want_ns / 25 && have_ns < want_ns + want_ns / 25;
}

static int find_rounds(Work *w, uint64_t want_ns, uint32_t *ret_rounds, uint64_t *ret_kernel_ns) {
        uint32_t rounds = ROUNDS_FIRST;
        uint64_t ns = want_ns, start = now_ns();

        for (unsigned i = 0; i < N_REFINE;) {
                int r = measure_best(w, rounds, &ns);
                if (r < 0)
                        return r;
                bool warm = now_ns() - start > WARM_UP_NS;
                if (warm && (is_close(ns, want_ns) || rounds == ROUNDS_MAX))
                        break;
                i += warm;
                if (i < N_REFINE)
                        rounds = scale(rounds, ns, want_ns);
        }
        *ret_rounds = rounds;
        *ret_kernel_ns = ns;
        return 0;
}

int calibrate_main(const char *device, uint64_t kernel_ns) {
        _cleanup_(work_closep)
        Work *w = NULL;
        uint32_t rounds;
        uint64_t ns;

        int r = work_open(device, 0, &w);
        if (r < 0)
                return r;
        if (kernel_ns == 0)
                kernel_ns = work_is_gpu(w) ? CALIBRATE_GPU_NS : CALIBRATE_CPU_NS;
        r = find_rounds(w, kernel_ns, &rounds, &ns);
        if (r < 0)
                return r;

        printf("calibrated %u %" PRIu64 " %d %d %s\t%s\n", rounds, ns, work_is_gpu(w), work_cpu(w), work_device_name(w),
                        work_driver_version(w));
        return fflush(stdout) == 0 ? 0 : -EIO;
}

static int on_line(const char *line, void *userdata) {
        Calibration *c = userdata;
        int gpu;

        if (sscanf(line, "calibrated %u %" SCNu64 " %d %d %127[^\t]\t%127[^\n]", &c->rounds, &c->kernel_ns, &gpu,
                            &c->cpu, c->device, c->driver) != 6)
                return demo_error(-EPROTO, "the calibrator said: %s", line);
        c->gpu = gpu;
        return 0;
}

int calibrate(const char *device, uint64_t kernel_ns, Calibration *ret) {
        _cleanup_(child_done)
        Child child = CHILD_NULL;
        Calibration c = {.cpu = -1};
        char ns[24];

        (void) snprintf(ns, sizeof(ns), "%" PRIu64, kernel_ns);
        const char *argv[] = {sim_player(device), "--calibrator", strempty(device), ns, NULL};
        int r = child_start(&child, argv, CHILD_NATIVE);
        if (r < 0)
                return r;

        uint64_t deadline = now_ns() + TIMEOUT_NS;
        while (c.rounds == 0) {
                struct pollfd p = {.fd = child.output, .events = POLLIN};
                uint64_t now = now_ns();

                if (now >= deadline)
                        return demo_error(-ETIMEDOUT, "the device did not finish calibration in %u s",
                                        (unsigned) (TIMEOUT_NS / NSEC_PER_SEC));
                if (poll(&p, 1, (int) ((deadline - now) / NSEC_PER_MSEC) + 1) <= 0)
                        continue;
                r = child_read(&child, on_line, &c);
                if (r < 0)
                        return r;
                if (r == 0 && c.rounds == 0) /* its line and its end may be reported together */
                        return demo_error(-EIO, "the calibration failed");
        }
        *ret = c;
        return 0;
}
