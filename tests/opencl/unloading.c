/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A program that opens the loader, leaves a queue behind with work on it, and drops the loader, many times. It is not
 * linked to the loader: there would always be one left. A thread that calls the runtime for that queue must find the
 * loader's code where it was.
 */

#include <dlfcn.h>

#include "cl-test.h"

#define ROUNDS 100

#define FUNCTION(name)                                                                                                 \
        typeof(&name) f_##name;                                                                                        \
        *(void **) &f_##name = dlsym(library, #name);                                                                  \
        CHECK(f_##name)

static void use(void *library) {
        FUNCTION(clGetPlatformIDs);
        FUNCTION(clGetDeviceIDs);
        FUNCTION(clCreateContext);
        FUNCTION(clCreateCommandQueue);
        FUNCTION(clCreateBuffer);
        FUNCTION(clEnqueueWriteBuffer);
        FUNCTION(clEnqueueReadBuffer);
        FUNCTION(clFlush);
        cl_platform_id platform;
        cl_device_id device;
        cl_int r, value = 7, back = 0;

        CHECK_CL(f_clGetPlatformIDs(1, &platform, NULL));
        CHECK_CL(f_clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
        cl_context context = f_clCreateContext(NULL, 1, &device, NULL, NULL, &r);
        CHECK_CL(r);
        cl_command_queue q = f_clCreateCommandQueue(context, device, 0, &r);
        CHECK_CL(r);
        cl_mem a = f_clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof(value), NULL, &r);
        CHECK_CL(r);
        CHECK_CL(f_clEnqueueWriteBuffer(q, a, CL_TRUE, 0, sizeof(value), &value, 0, NULL, NULL));
        CHECK_CL(f_clEnqueueReadBuffer(q, a, CL_TRUE, 0, sizeof(back), &back, 0, NULL, NULL));
        CHECK(back == value);
        CHECK_CL(f_clEnqueueWriteBuffer(q, a, CL_FALSE, 0, sizeof(value), &value, 0, NULL, NULL));
        CHECK_CL(f_clFlush(q));
}

int main(int argc, char **argv) {
        for (int i = 0; i < ROUNDS; i++) {
                void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
                CHECK(library);
                use(library);
                CHECK(dlclose(library) == 0);
        }
        return 0;
}
