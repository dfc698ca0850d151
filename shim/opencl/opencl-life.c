/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The life of a command queue: made, retained, released, and what becomes of it in a child after fork() and when the
 * process ends
 */

#include "shim/opencl/opencl-life.h"
#include "common/client-environment.h"
#include "common/thread-util.h"
#include "shim/late/late.h"
#include "shim/opencl/opencl-close.h"
#include "shim/opencl/opencl-device.h"
#include "shim/opencl/opencl-launch.h"
#include "shim/opencl/opencl-own.h"
#include "shim/opencl/opencl-thread.h"
#include "shim/opencl/opencl-track.h"

#define LOW_PRIORITY_HINT (-1) /* one tier below its process: cl_khr_priority_hints knows no degrees */

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The child has none of the parent's threads: those that held locks of ours are gone, and so are the runtime's workers
 * that would call our sentinels. The parent's queues pass unscheduled in the child; queues that it makes are its
 * own. */
static void fork_child(void) {
        opencl_table_fork_child();
        opencl_own_fork_child();
        opencl_thread = (OpenclThread){};
}

/* Registered by atexit() when the runtime is loaded: so it runs before the ends that the runtime registered. A
 * destructor would not: that of a preloaded library runs last. */
static void at_exit(void) {
        PROTECT_ERRNO;
        opencl_own_stop();
        opencl_queue_forget_all();
}

static void with_first_queue(void) {
        (void) thread_atfork(NULL, NULL, fork_child);
        (void) atexit(at_exit);
}

static OpenclQueue *queue_new(cl_command_queue handle, cl_device_id device, cl_command_queue_properties properties,
                int32_t priority_hint) {
        OpenclDevice d;
        opencl_device_describe(device, &d);

        OpenclQueue *q = opencl_queue_take();
        if (!q)
                return NULL;

        q->handle = handle;
        q->callbacks_prompt = d.is_cpu;
        q->callbacks_spin = d.is_nvidia && !d.is_cpu;
        q->stamps = !d.is_cpu && properties & CL_QUEUE_PROFILING_ENABLE && opencl_next.clGetEventProfilingInfo;
        q->priority_hint = priority_hint;
        atomic_store(&q->in_order, !(properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE));

        const XschedQueueInfo info = {
                        .size = sizeof(info),
                        .device = d.id,
                        .device_name = d.name,
                        .backend = "opencl",
                        .label = properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE ? "out-of-order" : "in-order",
                        .priority_hint = priority_hint,
                        .drain = opencl_drain,
                        .look = opencl_tail_look,
                        .userdata = q,
                        .native = (uint64_t) (uintptr_t) handle,
        };
        if (xsched_queue_new(&info, &q->xq) < 0) {
                q->xq = NULL;
                opencl_queue_unref(q);
                return NULL;
        }
        return q;
}

void opencl_queue_add(cl_command_queue handle, cl_device_id device, cl_command_queue_properties properties,
                int32_t priority_hint) {
        PROTECT_ERRNO;

        if (environment_is_true(getenv("XSCHED_DISABLE")))
                return;

        if (!late_load())
                return;
        (void) pthread_once(&once, with_first_queue);
        OpenclQueue *q = queue_new(handle, device, properties, priority_hint), *stale = NULL;
        if (!q)
                return;

        if (!opencl_table_add(handle, q, &stale))
                opencl_queue_unref(q);
        if (stale) {
                /* The former queue of this handle was released without our hooks: otherwise the runtime would not have
                 * given the handle again. */
                atomic_fetch_or(&stale->pins, OPENCL_QUEUE_DROPPED);
                opencl_queue_unref(stale);
        }
}

void opencl_queue_add_with(cl_command_queue queue, cl_device_id device, const cl_queue_properties *properties) {
        cl_command_queue_properties flags = 0;
        int32_t hint = 0;

        for (const cl_queue_properties *p = properties; p && p[0] != 0; p += 2)
                if (p[0] == CL_QUEUE_PROPERTIES)
                        flags = (cl_command_queue_properties) p[1];
                else if (p[0] == CL_QUEUE_PRIORITY_KHR && p[1] & CL_QUEUE_PRIORITY_LOW_KHR)
                        hint = LOW_PRIORITY_HINT;

        /* Kernels on the device launch to such queues, so there is no call that could wait. */
        if (!(flags & CL_QUEUE_ON_DEVICE))
                opencl_queue_add(queue, device, flags, hint);
}

void opencl_queue_retained(cl_command_queue handle) {
        OpenclQueue *q = opencl_queue_find(handle);
        if (q)
                atomic_fetch_add(&q->app_refs, 1);
}

bool opencl_queue_released(cl_command_queue handle) {
        PROTECT_ERRNO;
        OpenclQueue *q = opencl_queue_find(handle);
        if (!q || atomic_fetch_sub(&q->app_refs, 1) != 1)
                return false;

        if (!opencl_table_remove(handle, q))
                return false;

        opencl_tail_end(q);
        bool pinned = atomic_fetch_or(&q->pins, OPENCL_QUEUE_DROPPED) != 0;
        opencl_harvest(q, 0);
        opencl_queue_unref(q);
        return pinned;
}

void opencl_queue_forget_all(void) {
        OpenclTable *t = opencl_table_forget();

        for (size_t i = 0; i <= t->mask; i++) {
                OpenclQueue *q = atomic_load(&t->entries[i].queue);
                if (q)
                        opencl_track_forget(q);
        }
}
