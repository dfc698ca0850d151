/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * CUDA by the driver's own interface: see cuda-driver.h
 */

#include "tools/demo/cuda-driver.h"

#include <dlfcn.h>

#include "tools/demo/cuda-kernels.h"

#define BLOCK 256U

CudaDriver cuda;
void *cuda_stream, *cuda_context;
char cuda_device_name[128];
uint64_t cuda_n_launches;
static void *library, *scale_f, *clip_f, *matmul_f, *convolve_f;

void *cuda_find(const char *name) {
        return dlsym(library, name);
}

static void *find(const char *name) {
        void *f = cuda_find(name);

        if (!f)
                cuda_die("libcuda.so.1 has no %s", name);
        return f;
}

static void find_functions(void) {
        library = dlopen("libcuda.so.1", RTLD_NOW);
        if (!library)
                cuda_die("%s", dlerror());
        *(void **) &cuda.init = find("cuInit");
        *(void **) &cuda.device_get = find("cuDeviceGet");
        *(void **) &cuda.device_name = find("cuDeviceGetName");
        *(void **) &cuda.retain = find("cuDevicePrimaryCtxRetain");
        *(void **) &cuda.set_current = find("cuCtxSetCurrent");
        *(void **) &cuda.load = find("cuModuleLoadData");
        *(void **) &cuda.function = find("cuModuleGetFunction");
        *(void **) &cuda.alloc = find("cuMemAlloc_v2");
        *(void **) &cuda.free = find("cuMemFree_v2");
        *(void **) &cuda.stream = find("cuStreamCreate");
        *(void **) &cuda.to_device = find("cuMemcpyHtoDAsync_v2");
        *(void **) &cuda.to_host = find("cuMemcpyDtoHAsync_v2");
        *(void **) &cuda.launch = find("cuLaunchKernel");
        *(void **) &cuda.wait = find("cuStreamSynchronize");
}

void cuda_open(void) {
        void *module;
        int device;

        find_functions();
        CUDA_CHECK(cuda.init(0));
        CUDA_CHECK(cuda.device_get(&device, 0));
        CUDA_CHECK(cuda.device_name(cuda_device_name, sizeof(cuda_device_name), device));
        CUDA_CHECK(cuda.retain(&cuda_context, device));
        CUDA_CHECK(cuda.set_current(cuda_context));
        CUDA_CHECK(cuda.load(&module, cuda_kernels));
        CUDA_CHECK(cuda.function(&scale_f, module, "scale"));
        CUDA_CHECK(cuda.function(&clip_f, module, "clip"));
        CUDA_CHECK(cuda.function(&matmul_f, module, "matmul"));
        CUDA_CHECK(cuda.function(&convolve_f, module, "convolve"));
        CUDA_CHECK(cuda.stream(&cuda_stream, 1));
}

/* One thread for each of n numbers. */
static void launch(void *f, unsigned n, void **params) {
        CUDA_CHECK(cuda.launch(f, DIV_ROUND_UP(n, BLOCK), 1, 1, BLOCK, 1, 1, 0, cuda_stream, params, NULL));
        cuda_n_launches++;
}

void cuda_scale(CudaMemory x, unsigned n, unsigned a, unsigned b) {
        launch(scale_f, n, (void *[]){&x, &n, &a, &b});
}

void cuda_clip(CudaMemory x, unsigned n) {
        launch(clip_f, n, (void *[]){&x, &n});
}

void cuda_matmul(CudaMemory c, CudaMemory a, CudaMemory b, unsigned n) {
        launch(matmul_f, n * n, (void *[]){&c, &a, &b, &n});
}

void cuda_convolve(CudaMemory out, CudaMemory in, CudaMemory w, unsigned n) {
        launch(convolve_f, n * n, (void *[]){&out, &in, &w, &n});
}

CudaMemory cuda_put(const uint32_t *from, size_t n) {
        CudaMemory m;

        CUDA_CHECK(cuda.alloc(&m, n * sizeof(uint32_t)));
        if (from)
                CUDA_CHECK(cuda.to_device(m, from, n * sizeof(uint32_t), cuda_stream));
        return m;
}

void cuda_get(uint32_t *to, CudaMemory from, size_t n) {
        CUDA_CHECK(cuda.to_host(to, from, n * sizeof(uint32_t), cuda_stream));
        CUDA_CHECK(cuda.wait(cuda_stream));
}

int64_t cuda_n_seen(void) {
        uint64_t (*count)(const char *name);

        *(void **) &count = dlsym(RTLD_DEFAULT, "xsched_cuda_count");
        return count ? (int64_t) count("cuLaunchKernel") : -1;
}
