/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * xsched-metrics DEVICE: one measurement of one GPU, for xschedd
 *
 * A process of its own, because what it calls blocks, prints, and may crash: see hal/gpu-metrics.h. The answer goes to
 * the standard output that it was started with; what a library prints goes nowhere.
 *
 * xsched-metrics --usage DEVICE: how long processes have used it, as its driver counts. Each line of the standard input
 * is a question, pids with spaces between; the answer is "ran SPAN RAN" (microseconds, since the question before), or
 * "none TEXT". It ends when its input ends, and when no question comes for a while.
 */

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>

#include "common/macro.h"
#include "hal/gpu-usage.h"
#include "hal/nvml.h"
#include "hal/rocm-smi.h"

/* The root below which sysfs is. A test's build has another one: tests/lib/quick-build.h. */
#ifndef METRICS_ROOT
#        define METRICS_ROOT ""
#endif

/* Takes our own standard output away from libraries that print. */
static FILE *take_stdout(void) {
        int copy = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3), null = open("/dev/null", O_WRONLY | O_CLOEXEC);

        if (copy < 0 || null < 0 || dup2(null, STDOUT_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0)
                return NULL;
        return fdopen(copy, "w");
}

/* Measures with the vendor's library. If the vendor is unknown, tries each library until one knows the device. */
static int read_library(const char *root, const PciAddress *a, GpuMetrics *m, char source[static 96]) {
        GpuVendor vendor = gpu_metrics_vendor(root, a);
        char of_nvml[96];
        int r = -ENODEV, q;

        if (vendor != GPU_VENDOR_NVIDIA) {
                r = gpu_metrics_read_rocm_smi(a, m, source);
                if (r >= 0 || vendor == GPU_VENDOR_AMD)
                        return r;
        }
        q = gpu_metrics_read_nvml(a, m, of_nvml);
        if (q < 0 && vendor != GPU_VENDOR_NVIDIA)
                return r;
        memcpy(source, of_nvml, sizeof(of_nvml));
        return q;
}

typedef struct Question {
        char text[GPU_USAGE_PIDS_MAX * 12 + 1];
        size_t length;
        pid_t pids[GPU_USAGE_PIDS_MAX];
        size_t n;
} Question;

static void parse_pids(Question *q) {
        char *p = q->text, *end;

        for (q->n = 0; q->n < ELEMENTSOF(q->pids); p = end) {
                long pid = strtol(p, &end, 10);
                if (end == p || pid <= 0 || pid > INT_MAX)
                        return;
                q->pids[q->n++] = (pid_t) pid;
        }
}

/* Returns > 0: a question is complete; 0: not yet; < 0: there will be none. */
static int read_question(Question *q) {
        ssize_t n = read(STDIN_FILENO, q->text + q->length, sizeof(q->text) - 1 - q->length);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        if (n <= 0)
                return -EPIPE;
        q->length += (size_t) n;
        q->text[q->length] = '\0';
        if (q->text[q->length - 1] != '\n')
                return q->length < sizeof(q->text) - 1 ? 0 : -EMSGSIZE;
        q->length = 0;
        parse_pids(q);
        return 1;
}

static int answer(FILE *f, GpuUsage *u, const Question *q) {
        uint64_t span_us, ran_us;

        int r = gpu_usage_read(u, q->pids, q->n, &span_us, &ran_us);
        if (r < 0)
                (void) fprintf(f, "none %s\n", strerror(-r));
        else
                (void) fprintf(f, "ran %" PRIu64 " %" PRIu64 "\n", span_us, ran_us);
        return fflush(f) == 0 ? r : -EPIPE;
}

static int follow(FILE *f, const char *root, const PciAddress *a) {
        struct pollfd fd = {.fd = STDIN_FILENO, .events = POLLIN};
        Question q = {.n = 0};
        unsigned n_idle = 0;
        char source[96];
        GpuUsage *u;

        int r = gpu_usage_open(root, a, &u, source);
        (void) fprintf(f, "%s %s\n", r < 0 ? "none" : "source", source);
        if (fflush(f) != 0 || r < 0)
                return EXIT_FAILURE;
        do {
                r = poll(&fd, 1, n_idle < GPU_USAGE_SAMPLES_MAX ? GPU_USAGE_SAMPLE_MS : GPU_USAGE_IDLE_MS);
                if (r == 0 && n_idle++ >= GPU_USAGE_SAMPLES_MAX)
                        r = -ETIMEDOUT;
                else if (r == 0)
                        gpu_usage_sample(u, q.pids, q.n);
                else
                        r = read_question(&q);
                if (r > 0) {
                        n_idle = 0;
                        r = answer(f, u, &q);
                }
        } while (r >= 0);
        gpu_usage_free(u);
        return EXIT_SUCCESS;
}

int main(int argc, char *argv[]) {
        const char *root = METRICS_ROOT;
        bool usage = argc > 2 && streq(argv[argc - 2], "--usage");
        GpuMetrics m = GPU_METRICS_NULL, from_sysfs;
        char library[96], source[128];
        PciAddress a;

        if (argc != 2 + usage || pci_address_parse(argv[argc - 1], &a) < 0) {
                fprintf(stderr, "xsched-metrics is started by xschedd\n");
                return EXIT_FAILURE;
        }
        FILE *f = take_stdout();
        if (!f)
                return EXIT_FAILURE;
        if (usage)
                return follow(f, root, &a);
        int r = read_library(root, &a, &m, library);
        gpu_metrics_read_sysfs(root, &a, &from_sysfs);
        gpu_metrics_complete(&m, &from_sysfs);
        (void) snprintf(source, sizeof(source), r < 0 ? "sysfs; %s" : "%s", library);
        gpu_metrics_print(f, &m, source);
        return fclose(f) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
