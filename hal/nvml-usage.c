/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How long processes have used an NVIDIA GPU, from libnvidia-ml
 *
 * NVIDIA's header is not needed to build: the functions called are declared here. Each has been the same since the
 * first version of the library that has it.
 */

#include <time.h>

#include "common/array.h"
#include "common/macro.h"
#include "common/time-util.h"
#include "hal/gpu-usage.h"
#include "hal/library.h"
#include "hal/nvml-library.h"
#include "nvml-usage.h"

static const char *const sonames[] = {NVML_SONAME, NULL};

enum {
        NVML_NOT_FOUND = 6,
        NVML_INSUFFICIENT_SIZE = 7,
};

#define SAMPLES_MAX 65536U
#define READ_TRIES  4U
#define SPAN_MAX_US UINT64_C(60000000)

typedef struct NvmlSample {
        unsigned pid;
        unsigned long long timestamp;          /* us, of the time of day */
        unsigned sm, memory, encoder, decoder; /* percent */
} NvmlSample;

typedef struct Library {
        int (*init)(void);
        int (*shut_down)(void);
        int (*by_pci)(const char *id, void **device);
        int (*process_utilization)(void *device, NvmlSample *samples, unsigned *n, unsigned long long since);
} Library;

static const LibrarySymbol symbols[] = {
                {"nvmlInit_v2", offsetof(Library, init)},
                {"nvmlShutdown", offsetof(Library, shut_down)},
                {"nvmlDeviceGetHandleByPciBusId_v2", offsetof(Library, by_pci)},
                {"nvmlDeviceGetProcessUtilization", offsetof(Library, process_utilization)},
};

struct Nvml {
        Library library;
        void *device;
        uint64_t since_us; /* newer samples have not been counted */
        NvmlSample *samples;
        size_t n_allocated;
};

Nvml *nvml_free(Nvml *n) {
        if (!n)
                return NULL;
        (void) n->library.shut_down();
        free(n->samples);
        free(n);
        return NULL;
}

int nvml_open(const PciAddress *a, Nvml **ret) {
        char id[NVML_BUS_ID_MAX];
        Library l;

        int r = library_open(sonames, symbols, ELEMENTSOF(symbols), &l, NULL);
        if (r < 0)
                return r;
        if (l.init() != NVML_SUCCESS)
                return -EIO;
        Nvml *n = calloc(1, sizeof(*n));
        if (!n)
                return -ENOMEM;
        n->library = l;
        nvml_bus_id(a, id);
        if (l.by_pci(id, &n->device) != NVML_SUCCESS) {
                nvml_free(n);
                return -ENODEV;
        }
        *ret = n;
        return 0;
}

static uint64_t time_of_day_us(void) {
        struct timespec ts;

        (void) clock_gettime(CLOCK_REALTIME, &ts);
        return timespec_to_ns(&ts) / NSEC_PER_USEC;
}

/* Reads the samples of all processes since the last reading. *ret_n is 0 when no process used the GPU. */
static int read_samples(Nvml *n, unsigned *ret_n) {
        for (unsigned i = 0; i < READ_TRIES; i++) {
                unsigned count = (unsigned) n->n_allocated;
                int r = n->library.process_utilization(n->device, n->samples, &count, n->since_us);

                if (r == NVML_SUCCESS && count <= n->n_allocated) {
                        *ret_n = count;
                        return 0;
                }
                if (r == NVML_NOT_FOUND) {
                        *ret_n = 0;
                        return 0;
                }
                if ((r != NVML_INSUFFICIENT_SIZE && r != NVML_SUCCESS) || count > SAMPLES_MAX)
                        return -EIO;
                /* More than it asks for: other processes may begin until the next try. */
                NvmlSample *samples = array_reserve(
                                n->samples, &n->n_allocated, 2 * (size_t) MAX(count, 16U), sizeof(*samples));
                if (!samples)
                        return -ENOMEM;
                n->samples = samples;
        }
        return -EIO;
}

static int compare_samples(const void *pa, const void *pb) {
        const NvmlSample *a = pa, *b = pb;

        if (a->pid != b->pid)
                return a->pid < b->pid ? -1 : 1;
        return (a->timestamp > b->timestamp) - (a->timestamp < b->timestamp);
}

static bool is_one_of(unsigned pid, const pid_t *pids, size_t n) {
        for (size_t i = 0; i < n; i++)
                if ((unsigned) pids[i] == pid)
                        return true;
        return false;
}

/* Each sample covers the time since the previous one. */
static uint64_t sum_samples(const Nvml *n, unsigned count, const pid_t *pids, size_t n_pids, uint64_t now) {
        uint64_t ran = 0, last = 0;

        for (unsigned i = 0; i < count; i++) {
                const NvmlSample *s = n->samples + i;
                uint64_t from = i > 0 && s[-1].pid == s->pid ? last : n->since_us;

                last = CLAMP((uint64_t) s->timestamp, from, now);
                if (is_one_of(s->pid, pids, n_pids))
                        ran += (last - from) * MIN(s->sm, 100U) / 100;
        }
        return ran;
}

int nvml_read(Nvml *n, const pid_t *pids, size_t n_pids, uint64_t *ret_span_us, uint64_t *ret_ran_us) {
        uint64_t now = time_of_day_us(), newest = n->since_us;
        unsigned count;

        bool first = n->since_us == 0 || now < n->since_us || now - n->since_us > SPAN_MAX_US;
        if (first)
                n->since_us = newest = now;
        int r = read_samples(n, &count);
        if (r < 0)
                return r;
        if (first)
                count = 0;
        if (count > 0)
                qsort(n->samples, count, sizeof(*n->samples), compare_samples);
        for (unsigned i = 0; i < count; i++)
                newest = CLAMP((uint64_t) n->samples[i].timestamp, newest, now);
        uint64_t ran = sum_samples(n, count, pids, n_pids, now);
        /* Without samples no process used the GPU, so the span ends now. */
        uint64_t until = count > 0 ? newest : now;
        *ret_span_us = until - n->since_us;
        *ret_ran_us = MIN(ran, *ret_span_us);
        n->since_us = until;
        return 0;
}
