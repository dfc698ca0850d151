/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The OpenCL functions that the layer intercepts, in one list, for sources that need all of them (no include guard:
 * define the macros, include, and they are undefined again)
 *
 * GATED (GATED_KERNEL: it has a kernel, and work-items) waits while the queue is held, and is tracked while the queue
 * is watched: everything that makes the device work.
 *
 * GATED_BLOCKING and GATED_MAP, when asked to block, return when everything launched before is complete, and report
 * that. GATED_WRITE may block, too, but reports nothing: it returns when the application may use its memory again,
 * which may be before the device has begun.
 *
 * OBSERVED always passes; only its wait list is examined, for what it says about the commands behind it:
 *  - markers and barriers do no work, and delay nothing that is not held already. Applications use them to make one
 *    queue wait for another: one that waits at a gate could keep a command that was already let through from ever
 *    finishing.
 *  - unmapping returns what a map (which is gated) lent; if it were held, another queue or the host could wait for
 *    ever.
 *  - freeing SVM releases memory, which a held process should return rather than keep.
 *  - native kernels are functions of the application that run on the host and may wait for anything in it.
 *  - acquiring and releasing graphics objects hands them to another API, whose side would have to wait with us.
 * User events are the application's own and are not examined.
 *
 * All have the queue first and end in (number of events to wait for, the events, where to put the event); PARAMS and
 * ARGS are the parameters in between, with a leading comma.
 */

#ifndef GATED
#        define GATED(name, PARAMS, ARGS)
#endif
#ifndef GATED_KERNEL
#        define GATED_KERNEL(name, PARAMS, ARGS)
#endif
#ifndef GATED_BLOCKING
#        define GATED_BLOCKING(name, PARAMS, ARGS)
#endif
#ifndef GATED_WRITE
#        define GATED_WRITE(name, PARAMS, ARGS)
#endif
#ifndef GATED_MAP
#        define GATED_MAP(name, PARAMS, ARGS)
#endif
#ifndef OBSERVED
#        define OBSERVED(name, what, PARAMS, ARGS)
#endif

#define L(...) , ##__VA_ARGS__

/* clang-format off */
GATED_KERNEL(clEnqueueNDRangeKernel,
      L(cl_kernel kernel, cl_uint dim, const size_t *offset, const size_t *global, const size_t *local),
      L(kernel, dim, offset, global, local))
GATED(clEnqueueTask, L(cl_kernel kernel), L(kernel))
GATED(clEnqueueCopyBuffer,
      L(cl_mem src, cl_mem dst, size_t src_offset, size_t dst_offset, size_t size),
      L(src, dst, src_offset, dst_offset, size))
GATED(clEnqueueCopyBufferRect,
      L(cl_mem src, cl_mem dst, const size_t *src_origin, const size_t *dst_origin, const size_t *region,
        size_t src_row, size_t src_slice, size_t dst_row, size_t dst_slice),
      L(src, dst, src_origin, dst_origin, region, src_row, src_slice, dst_row, dst_slice))
GATED(clEnqueueCopyImage,
      L(cl_mem src, cl_mem dst, const size_t *src_origin, const size_t *dst_origin, const size_t *region),
      L(src, dst, src_origin, dst_origin, region))
GATED(clEnqueueCopyImageToBuffer,
      L(cl_mem src, cl_mem dst, const size_t *src_origin, const size_t *region, size_t dst_offset),
      L(src, dst, src_origin, region, dst_offset))
GATED(clEnqueueCopyBufferToImage,
      L(cl_mem src, cl_mem dst, size_t src_offset, const size_t *dst_origin, const size_t *region),
      L(src, dst, src_offset, dst_origin, region))
GATED(clEnqueueFillBuffer,
      L(cl_mem mem, const void *pattern, size_t pattern_size, size_t offset, size_t size),
      L(mem, pattern, pattern_size, offset, size))
GATED(clEnqueueFillImage,
      L(cl_mem image, const void *color, const size_t *origin, const size_t *region),
      L(image, color, origin, region))
GATED(clEnqueueMigrateMemObjects,
      L(cl_uint n_mems, const cl_mem *mems, cl_mem_migration_flags flags),
      L(n_mems, mems, flags))
GATED(clEnqueueSVMMemFill,
      L(void *dst, const void *pattern, size_t pattern_size, size_t size),
      L(dst, pattern, pattern_size, size))
GATED(clEnqueueSVMMigrateMem,
      L(cl_uint n_ptrs, const void **ptrs, const size_t *sizes, cl_mem_migration_flags flags),
      L(n_ptrs, ptrs, sizes, flags))

GATED_BLOCKING(clEnqueueReadBuffer,
      L(cl_mem mem, cl_bool blocking, size_t offset, size_t size, void *ptr),
      L(mem, blocking, offset, size, ptr))
GATED_WRITE(clEnqueueWriteBuffer,
      L(cl_mem mem, cl_bool blocking, size_t offset, size_t size, const void *ptr),
      L(mem, blocking, offset, size, ptr))
GATED_BLOCKING(clEnqueueReadBufferRect,
      L(cl_mem mem, cl_bool blocking, const size_t *buffer_origin, const size_t *host_origin, const size_t *region,
        size_t buffer_row, size_t buffer_slice, size_t host_row, size_t host_slice, void *ptr),
      L(mem, blocking, buffer_origin, host_origin, region, buffer_row, buffer_slice, host_row, host_slice, ptr))
GATED_WRITE(clEnqueueWriteBufferRect,
      L(cl_mem mem, cl_bool blocking, const size_t *buffer_origin, const size_t *host_origin, const size_t *region,
        size_t buffer_row, size_t buffer_slice, size_t host_row, size_t host_slice, const void *ptr),
      L(mem, blocking, buffer_origin, host_origin, region, buffer_row, buffer_slice, host_row, host_slice, ptr))
GATED_BLOCKING(clEnqueueReadImage,
      L(cl_mem image, cl_bool blocking, const size_t *origin, const size_t *region, size_t row, size_t slice,
        void *ptr),
      L(image, blocking, origin, region, row, slice, ptr))
GATED_WRITE(clEnqueueWriteImage,
      L(cl_mem image, cl_bool blocking, const size_t *origin, const size_t *region, size_t row, size_t slice,
        const void *ptr),
      L(image, blocking, origin, region, row, slice, ptr))
GATED_BLOCKING(clEnqueueSVMMemcpy,
      L(cl_bool blocking, void *dst, const void *src, size_t size),
      L(blocking, dst, src, size))
GATED_BLOCKING(clEnqueueSVMMap,
      L(cl_bool blocking, cl_map_flags flags, void *ptr, size_t size),
      L(blocking, flags, ptr, size))

GATED_MAP(clEnqueueMapBuffer,
      L(cl_mem mem, cl_bool blocking, cl_map_flags flags, size_t offset, size_t size),
      L(mem, blocking, flags, offset, size))
GATED_MAP(clEnqueueMapImage,
      L(cl_mem image, cl_bool blocking, cl_map_flags flags, const size_t *origin, const size_t *region, size_t *row,
        size_t *slice),
      L(image, blocking, flags, origin, region, row, slice))

OBSERVED(clEnqueueMarkerWithWaitList, OPENCL_OBSERVE_WAITS, L(), L())
OBSERVED(clEnqueueBarrierWithWaitList, OPENCL_OBSERVE_BARRIER, L(), L())
OBSERVED(clEnqueueUnmapMemObject, OPENCL_OBSERVE_WAITS, L(cl_mem mem, void *ptr), L(mem, ptr))
OBSERVED(clEnqueueSVMUnmap, OPENCL_OBSERVE_WAITS, L(void *ptr), L(ptr))
OBSERVED(clEnqueueSVMFree, OPENCL_OBSERVE_HOST,
      L(cl_uint n_ptrs, void **ptrs, void (CL_CALLBACK *free_func)(cl_command_queue, cl_uint, void **, void *),
        void *data),
      L(n_ptrs, ptrs, free_func, data))
OBSERVED(clEnqueueNativeKernel, OPENCL_OBSERVE_HOST,
      L(void (CL_CALLBACK *func)(void *), void *args, size_t args_size, cl_uint n_mems, const cl_mem *mems,
        const void **args_mem_loc),
      L(func, args, args_size, n_mems, mems, args_mem_loc))
OBSERVED(clEnqueueAcquireGLObjects, OPENCL_OBSERVE_HOST, L(cl_uint n_mems, const cl_mem *mems), L(n_mems, mems))
OBSERVED(clEnqueueReleaseGLObjects, OPENCL_OBSERVE_HOST, L(cl_uint n_mems, const cl_mem *mems), L(n_mems, mems))
/* clang-format on */

#undef L
#undef GATED
#undef GATED_KERNEL
#undef GATED_BLOCKING
#undef GATED_WRITE
#undef GATED_MAP
#undef OBSERVED
