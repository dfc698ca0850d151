/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Conformance: copies, fills, maps, images, shared virtual memory
 */

#include "conformance.h"
#include "tests/lib/deadline.h"

static void fill_pattern(cl_int values[N], cl_int seed) {
        for (size_t i = 0; i < N; i++)
                values[i] = (cl_int) (i * 2654435761U) ^ seed;
}

static void copies(void) {
        cl_command_queue q = queue_make(0);
        cl_int in[N], out[N] = {}, out2[N] = {};
        fill_pattern(in, 1);
        cl_mem a = buffer_make(), b = buffer_make();
        cl_event read;

        CHECK_CL(clEnqueueWriteBuffer(q, a, CL_FALSE, 0, sizeof(in), in, 0, NULL, NULL));
        CHECK_CL(clEnqueueCopyBuffer(q, a, b, 0, 0, sizeof(in), 0, NULL, NULL));
        CHECK_CL(clEnqueueReadBuffer(q, b, CL_FALSE, 0, sizeof(out), out, 0, NULL, &read));
        CHECK_CL(clEnqueueReadBuffer(q, a, CL_TRUE, 0, sizeof(out2), out2, 1, &read, NULL));
        CHECK(memcmp(in, out, sizeof(in)) == 0);
        CHECK(memcmp(in, out2, sizeof(in)) == 0);
        printf("status after a blocking read behind it: %d\n", event_status(read));
        CHECK_CL(clReleaseEvent(read));

        /* Blocking writes let the host change its memory at once. */
        for (cl_int k = 0; k < 20; k++) {
                fill_pattern(in, k);
                CHECK_CL(clEnqueueWriteBuffer(q, a, CL_TRUE, 0, sizeof(in), in, 0, NULL, NULL));
                memset(in, 0xEE, sizeof(in));
                CHECK_CL(clEnqueueReadBuffer(q, a, CL_TRUE, 0, sizeof(out), out, 0, NULL, NULL));
                printf("%08x\n", hash(out, sizeof(out)));
        }
        CHECK_CL(clReleaseMemObject(a));
        CHECK_CL(clReleaseMemObject(b));
        CHECK_CL(clReleaseCommandQueue(q));
}

static void rectangles(void) {
        cl_command_queue q = queue_make(0);
        const size_t origin[3] = {8, 2, 0}, other[3] = {4, 1, 0}, region[3] = {32, 10, 1};
        cl_int in[N], out[N] = {};
        fill_pattern(in, 2);
        cl_mem a = buffer_make(), b = buffer_make();

        CHECK_CL(clEnqueueWriteBufferRect(q, a, CL_FALSE, origin, other, region, 128, 0, 128, 0, in, 0, NULL, NULL));
        CHECK_CL(clEnqueueCopyBufferRect(q, a, b, origin, other, region, 128, 0, 64, 0, 0, NULL, NULL));
        CHECK_CL(clEnqueueReadBufferRect(q, b, CL_TRUE, other, origin, region, 64, 0, 128, 0, out, 0, NULL, NULL));
        printf("%08x\n", hash(out, sizeof(out)));
        CHECK_CL(clReleaseMemObject(a));
        CHECK_CL(clReleaseMemObject(b));
        CHECK_CL(clReleaseCommandQueue(q));
}

static void fills_and_maps(void) {
        cl_command_queue q = queue_make(0);
        cl_mem a = buffer_make();
        const cl_int pattern = 0x01234567;
        cl_int r;
        cl_event mapped;

        CHECK_CL(clEnqueueFillBuffer(q, a, &pattern, sizeof(pattern), 0, N * sizeof(cl_int), 0, NULL, NULL));
        CHECK_CL(clEnqueueMigrateMemObjects(q, 1, &a, 0, 0, NULL, NULL));
        cl_int *p = clEnqueueMapBuffer(
                        q, a, CL_FALSE, CL_MAP_READ | CL_MAP_WRITE, 0, N * sizeof(cl_int), 0, NULL, &mapped, &r);
        CHECK_CL(r);
        CHECK_CL(clWaitForEvents(1, &mapped));
        CHECK_CL(clReleaseEvent(mapped));
        for (size_t i = 0; i < N; i++) {
                CHECK(p[i] == pattern);
                p[i] = 3;
        }
        CHECK_CL(clEnqueueUnmapMemObject(q, a, p, 0, NULL, NULL));
        CHECK_CL(launch_step(q, a, 1, 0, NULL, NULL));

        p = clEnqueueMapBuffer(q, a, CL_TRUE, CL_MAP_READ, 0, N * sizeof(cl_int), 0, NULL, NULL, &r);
        CHECK_CL(r);
        for (size_t i = 0; i < N; i++)
                CHECK(p[i] == step(3, 1));
        CHECK_CL(clEnqueueUnmapMemObject(q, a, p, 0, NULL, NULL));
        CHECK_CL(clFinish(q));
        CHECK_CL(clReleaseMemObject(a));
        CHECK_CL(clReleaseCommandQueue(q));
}

static void images(void) {
        const size_t w = 32, h = 16, origin[3] = {0, 0, 0}, region[3] = {32, 16, 1};
        cl_bool supported = CL_FALSE;
        CHECK_CL(clGetDeviceInfo(t.device, CL_DEVICE_IMAGE_SUPPORT, sizeof(supported), &supported, NULL));
        printf("images %u\n", supported);
        if (!supported)
                return;

        cl_command_queue q = queue_make(0);
        const cl_image_format format = {CL_RGBA, CL_UNSIGNED_INT8};
        const cl_image_desc desc = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = w, .image_height = h};
        const cl_uint color[4] = {1, 2, 3, 4};
        cl_uint in[32 * 16], out[32 * 16] = {};
        cl_int r;
        for (size_t i = 0; i < w * h; i++)
                in[i] = (cl_uint) i * 77777;

        cl_mem i1 = clCreateImage(t.context, CL_MEM_READ_WRITE, &format, &desc, NULL, &r);
        CHECK_CL(r);
        cl_mem i2 = clCreateImage(t.context, CL_MEM_READ_WRITE, &format, &desc, NULL, &r);
        CHECK_CL(r);
        cl_mem b = buffer_make();
        CHECK_CL(clEnqueueWriteImage(q, i1, CL_FALSE, origin, region, 0, 0, in, 0, NULL, NULL));
        CHECK_CL(clEnqueueCopyImage(q, i1, i2, origin, origin, region, 0, NULL, NULL));
        CHECK_CL(clEnqueueCopyImageToBuffer(q, i2, b, origin, region, 0, 0, NULL, NULL));
        CHECK_CL(clEnqueueFillImage(q, i1, color, origin, region, 0, NULL, NULL));
        CHECK_CL(clEnqueueReadImage(q, i1, CL_TRUE, origin, region, 0, 0, out, 0, NULL, NULL));
        printf("%08x\n", hash(out, sizeof(out)));
        CHECK_CL(clEnqueueCopyBufferToImage(q, b, i1, 0, origin, region, 0, NULL, NULL));
        size_t pitch;
        void *p = clEnqueueMapImage(q, i1, CL_TRUE, CL_MAP_READ, origin, region, &pitch, NULL, 0, NULL, NULL, &r);
        CHECK_CL(r);
        for (size_t y = 0; y < h; y++)
                CHECK(memcmp((const char *) p + y * pitch, in + y * w, w * 4) == 0);
        CHECK_CL(clEnqueueUnmapMemObject(q, i1, p, 0, NULL, NULL));
        CHECK_CL(clFinish(q));
        CHECK_CL(clReleaseMemObject(i1));
        CHECK_CL(clReleaseMemObject(i2));
        CHECK_CL(clReleaseMemObject(b));
        CHECK_CL(clReleaseCommandQueue(q));
}

static void svm(void) {
        cl_device_svm_capabilities caps = 0;
        (void) clGetDeviceInfo(t.device, CL_DEVICE_SVM_CAPABILITIES, sizeof(caps), &caps, NULL);
        printf("svm %d\n", caps != 0);
        if (caps == 0)
                return;

        cl_command_queue q = queue_make(0);
        const cl_int pattern = 11;
        const size_t size = N * sizeof(cl_int);
        cl_int r, host[N];
        cl_int *a = clSVMAlloc(t.context, CL_MEM_READ_WRITE, size, 0),
               *b = clSVMAlloc(t.context, CL_MEM_READ_WRITE, size, 0);
        CHECK(a && b);

        CHECK_CL(clEnqueueSVMMemFill(q, a, &pattern, sizeof(pattern), size, 0, NULL, NULL));
        CHECK_CL(clEnqueueSVMMemcpy(q, CL_FALSE, b, a, size, 0, NULL, NULL));
        cl_kernel k = clCreateKernel(t.program, "add", &r);
        CHECK_CL(r);
        CHECK_CL(clSetKernelArgSVMPointer(k, 0, a));
        CHECK_CL(clSetKernelArgSVMPointer(k, 1, b));
        CHECK_CL(clEnqueueNDRangeKernel(q, k, 1, NULL, &(size_t){N}, NULL, 0, NULL, NULL));
        CHECK_CL(clEnqueueSVMMap(q, CL_TRUE, CL_MAP_READ, a, size, 0, NULL, NULL));
        for (size_t i = 0; i < N; i++)
                CHECK(a[i] == 22);
        CHECK_CL(clEnqueueSVMUnmap(q, a, 0, NULL, NULL));
        printf("migrate %d\n", clEnqueueSVMMigrateMem(q, 1, (const void **) (uintptr_t) &a, NULL, 0, 0, NULL, NULL));
        CHECK_CL(clEnqueueSVMMemcpy(q, CL_TRUE, host, a, size, 0, NULL, NULL));
        CHECK(host[0] == 22 && host[N - 1] == 22);
        CHECK_CL(clEnqueueSVMFree(q, 1, (void **) &a, NULL, NULL, 0, NULL, NULL));
        CHECK_CL(clFinish(q));
        clSVMFree(t.context, b);
        CHECK_CL(clReleaseKernel(k));
        CHECK_CL(clReleaseCommandQueue(q));
}

static void CL_CALLBACK native_function(void *args) {
        ++**(int **) args;
}

static void native_kernels(void) {
        cl_device_exec_capabilities caps = 0;
        CHECK_CL(clGetDeviceInfo(t.device, CL_DEVICE_EXECUTION_CAPABILITIES, sizeof(caps), &caps, NULL));
        printf("native kernels %d\n", (caps & CL_EXEC_NATIVE_KERNEL) != 0);
        if (!(caps & CL_EXEC_NATIVE_KERNEL))
                return;

        cl_command_queue q = queue_make(0);
        cl_mem a = buffer_make();
        int calls = 0, *argument = &calls;
        for (cl_int k = 0; k < 10; k++) {
                CHECK_CL(clEnqueueNativeKernel(
                                q, native_function, &argument, sizeof(argument), 0, NULL, NULL, 0, NULL, NULL));
                CHECK_CL(launch_step(q, a, k, 0, NULL, NULL));
        }
        CHECK_CL(clFinish(q));
        printf("%d calls\n", calls);
        CHECK_CL(clReleaseMemObject(a));
        CHECK_CL(clReleaseCommandQueue(q));
}

#ifdef cl_khr_command_buffer
/* PoCL makes a command buffer launchable again in a callback of its event, which can come after clFinish() has
 * returned. */
static bool is_executable(clGetCommandBufferInfoKHR_fn get_info, cl_command_buffer_khr buffer) {
        cl_command_buffer_state_khr state;

        CHECK_CL(get_info(buffer, CL_COMMAND_BUFFER_STATE_KHR, sizeof(state), &state, NULL));
        return state == CL_COMMAND_BUFFER_STATE_EXECUTABLE_KHR;
}
#endif

/* One command buffer, launched several times, found by name as applications do. */
static void command_buffers(void) {
#ifdef cl_khr_command_buffer
        cl_int r, expected = 0;
#        define FIND(name)                                                                                             \
                name##_fn p_##name = (name##_fn)(uintptr_t) clGetExtensionFunctionAddressForPlatform(t.platform, #name)
        FIND(clCreateCommandBufferKHR);
        FIND(clCommandNDRangeKernelKHR);
        FIND(clFinalizeCommandBufferKHR);
        FIND(clEnqueueCommandBufferKHR);
        FIND(clGetCommandBufferInfoKHR);
        FIND(clReleaseCommandBufferKHR);
        printf("command buffers %d\n", p_clEnqueueCommandBufferKHR != NULL);
        if (!p_clEnqueueCommandBufferKHR)
                return;

        cl_command_queue q = queue_make(0);
        cl_mem a = buffer_make();
        const cl_int k = 9;
        cl_kernel kernel = clCreateKernel(t.program, "next", &r);
        CHECK_CL(r);
        CHECK_CL(clSetKernelArg(kernel, 0, sizeof(a), &a));
        CHECK_CL(clSetKernelArg(kernel, 1, sizeof(k), &k));
        cl_command_buffer_khr buffer = p_clCreateCommandBufferKHR(1, &q, NULL, &r);
        CHECK_CL(r);
        CHECK_CL(p_clCommandNDRangeKernelKHR(
                        buffer, NULL, NULL, kernel, 1, NULL, &(size_t){N}, NULL, 0, NULL, NULL, NULL));
        CHECK_CL(p_clFinalizeCommandBufferKHR(buffer));
        for (int i = 0; i < 20; i++) {
                CHECK_CL(p_clEnqueueCommandBufferKHR(i % 2, i % 2 ? &q : NULL, buffer, 0, NULL, NULL));
                expected = step(expected, k);
                CHECK_CL(clFinish(q));
                CHECK(poll_until(is_executable(p_clGetCommandBufferInfoKHR, buffer)));
        }
        buffer_expect(q, a, expected);
        CHECK_CL(p_clReleaseCommandBufferKHR(buffer));
        CHECK_CL(clReleaseKernel(kernel));
        CHECK_CL(clReleaseMemObject(a));
        CHECK_CL(clReleaseCommandQueue(q));
#endif
}

const Case data_cases[] = {
                {"copies", copies},
                {"rectangles", rectangles},
                {"fills-and-maps", fills_and_maps},
                {"images", images},
                {"svm", svm},
                {"native-kernels", native_kernels},
                {"command-buffers", command_buffers},
                {},
};
