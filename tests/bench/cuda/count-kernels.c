/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A library that counts a program's kernels by CUPTI, for programs in which no profiler of PyTorch's can
 *
 * libcuda loads the library that CUDA_INJECTION64_PATH names. At its end the program writes to the file that
 * COUNT_KERNELS names: the kernels that the device ran outside of graphs, those in graphs, the launches of graphs, and
 * what the layer has counted, if it is loaded. Needs NVIDIA's headers and libcupti, so it is compiled by who uses it
 * (llama.py), and is no part of the build.
 */

#include <cupti.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define BUFFER_SIZE ((size_t) 1 << 20)

static size_t n_plain, n_in_graphs, n_dropped, n_launches, n_allocated;
static uint32_t *launches; // a number for each kernel in a graph, the same for all of one launch

static void give_buffer(uint8_t **ret_buffer, size_t *ret_size, size_t *ret_max_records) {
        *ret_buffer = aligned_alloc(8, BUFFER_SIZE);
        *ret_size = *ret_buffer ? BUFFER_SIZE : 0;
        *ret_max_records = 0;
}

static void count_kernel(const CUpti_ActivityKernel10 *k) {
        if (k->graphId == 0) {
                n_plain++;
                return;
        }
        n_in_graphs++;
        if (n_launches > 0 && launches[n_launches - 1] == k->correlationId)
                return;
        if (n_launches == n_allocated) {
                n_allocated = n_allocated * 2 + 1024;
                launches = realloc(launches, n_allocated * sizeof(*launches));
        }
        if (launches)
                launches[n_launches++] = k->correlationId;
}

static void take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t used) {
        (void) size;
        CUpti_Activity *record = NULL;
        size_t dropped = 0;

        while (cuptiActivityGetNextRecord(buffer, used, &record) == CUPTI_SUCCESS)
                if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL || record->kind == CUPTI_ACTIVITY_KIND_KERNEL)
                        count_kernel((const CUpti_ActivityKernel10 *) record);
        if (cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS)
                n_dropped += dropped;
        free(buffer);
}

static int compare_numbers(const void *a, const void *b) {
        uint32_t x = *(const uint32_t *) a, y = *(const uint32_t *) b;

        return x < y ? -1 : x > y;
}

static size_t count_different(void) {
        size_t n = 0;

        qsort(launches, n_launches, sizeof(*launches), compare_numbers);
        for (size_t i = 0; i < n_launches; i++)
                n += i == 0 || launches[i] != launches[i - 1];
        return n;
}

static long ask_layer(const char *const *names) {
        unsigned long (*count)(const char *name) = dlsym(RTLD_DEFAULT, "xsched_cuda_count");
        long n = 0;

        if (!count)
                return -1;
        for (; *names; names++)
                n += (long) count(*names);
        return n;
}

static void report(void) {
        static const char *const graphs[] = {"cuGraphLaunch", "cuGraphLaunch_ptsz", NULL};
        static const char *const extended[] = {"cuLaunchKernelEx", "cuLaunchKernelEx_ptsz", NULL};
        static const char *const others[] = {"cuLaunchKernel", "cuLaunchKernel_ptsz", "cuLaunchCooperativeKernel",
                        "cuLaunchCooperativeKernel_ptsz", NULL};

        (void) cuptiActivityFlushAll(1);
        long n_layer = ask_layer(others) < 0 ? -1 : ask_layer(others) + ask_layer(extended);
        const char *path = getenv("COUNT_KERNELS");
        FILE *f = path ? fopen(path, "w") : NULL;
        if (!f)
                return;
        fprintf(f,
                        "{\"cupti\": {\"kernels\": %zu, \"graphs\": %zu, "
                        "\"kernels in graphs\": %zu, \"dropped\": %zu}, "
                        "\"layer\": {\"kernels\": %ld, \"graphs\": %ld, \"with attributes\": %ld}}\n",
                        n_plain, count_different(), n_in_graphs, n_dropped, n_layer, ask_layer(graphs),
                        ask_layer(extended));
        fclose(f);
}

__attribute__((visibility("default"))) int InitializeInjection(void) {
        if (cuptiActivityRegisterCallbacks(give_buffer, take_buffer) != CUPTI_SUCCESS ||
                        cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) != CUPTI_SUCCESS)
                return 1; // libcuda goes on without; no report says so
        return atexit(report) == 0;
}
