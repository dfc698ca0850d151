/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A simulated OpenCL runtime: see sim-opencl.h
 */

#include "sim-opencl.h"

#include <pthread.h>
#include <stdio.h>

#include "common/macro.h"
#include "shim/late/late.h"

Sim sim;
FakeLibrary library;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static SimCallback *late; /* list of callbacks that sim_call_back() will call, each with its event in `late_event` */
typedef struct Late {
        SimCallback callback;
        cl_event event;
        cl_int status;
} Late;

static int devices[3];
cl_device_id const sim_device = (cl_device_id) (void *) &devices[0];
cl_device_id const sim_sub_device = (cl_device_id) (void *) &devices[1];
cl_device_id const sim_twin = (cl_device_id) (void *) &devices[2];
static int platform;

static void scribble(void) {
        errno = 4242;
}

void sim_reset(void) {
        memset(&sim, 0, sizeof(sim));
        memset(&library, 0, sizeof(library));
        late = NULL;
}

/* --- events --- */

static void event_unref(cl_event e) {
        if (--e->refs > 0)
                return;
        sim.n.events_alive--;
        while (e->callbacks) {
                SimCallback *c = e->callbacks;
                e->callbacks = c->next;
                free(c);
        }
        free(e);
}

static cl_event event_new(cl_command_queue q) {
        cl_event e = calloc(1, sizeof(*e));
        e->refs = 1;
        e->queue = q;
        e->status = q ? CL_QUEUED : CL_SUBMITTED;
        sim.n.events_alive++;
        return e;
}

static void event_end(cl_event e, cl_int status) {
        (void) pthread_mutex_lock(&lock);
        SimCallback *c = e->callbacks;
        e->status = status;
        e->callbacks = NULL;
        e->refs++;
        (void) pthread_mutex_unlock(&lock);
        while (c) {
                SimCallback *next = c->next;
                bool drop = status < 0 && sim.forget_failed;
                if (sim.late_callbacks && !drop) {
                        Late *l = calloc(1, sizeof(*l));
                        *l = (Late){.callback = *c, .event = e, .status = status};
                        e->refs++;
                        l->callback.next = late;
                        late = &l->callback;
                } else if (!drop)
                        c->function(e, status, c->userdata);
                free(c);
                c = next;
        }
        (void) pthread_mutex_lock(&lock);
        event_unref(e);
        (void) pthread_mutex_unlock(&lock);
}

void sim_begin(int n) {
        cl_event e = sim.events[n];

        (void) pthread_mutex_lock(&lock);
        e->status = CL_RUNNING;
        SimCallback *c = NULL, **at = &e->callbacks;
        while (*at && (*at)->on != CL_RUNNING)
                at = &(*at)->next;
        if (*at) {
                c = *at;
                *at = c->next;
        }
        (void) pthread_mutex_unlock(&lock);
        if (c)
                c->function(e, CL_RUNNING, c->userdata);
        free(c);
}

void sim_call_back(void) {
        while (late) {
                Late *l = container_of(late, Late, callback);
                late = l->callback.next;
                l->callback.function(l->event, l->status, l->callback.userdata);
                (void) pthread_mutex_lock(&lock);
                event_unref(l->event);
                (void) pthread_mutex_unlock(&lock);
                free(l);
        }
}

void sim_end(int n, cl_int status) {
        cl_event e = sim.events[n];
        if (!e)
                return;
        sim.events[n] = NULL;
        event_end(e, status);
        (void) pthread_mutex_lock(&lock);
        event_unref(e);
        (void) pthread_mutex_unlock(&lock);
}

void sim_complete_to(int n) {
        for (int i = 0; i < n && i < sim.n_events; i++)
                sim_end(i, CL_COMPLETE);
}

static cl_int CL_API_CALL sim_clRetainEvent(cl_event e) {
        scribble();
        (void) pthread_mutex_lock(&lock);
        e->refs++;
        sim.n.retains++;
        (void) pthread_mutex_unlock(&lock);
        return CL_SUCCESS;
}

static cl_int CL_API_CALL sim_clReleaseEvent(cl_event e) {
        scribble();
        (void) pthread_mutex_lock(&lock);
        event_unref(e);
        (void) pthread_mutex_unlock(&lock);
        return CL_SUCCESS;
}

static cl_int CL_API_CALL sim_clGetEventInfo(
                cl_event e, cl_event_info what, size_t size, void *value, size_t *size_ret) {
        scribble();
        if (!e)
                return CL_INVALID_EVENT;
        if (sim.in_query)
                sim.in_query();
        (void) pthread_mutex_lock(&lock);
        sim.n.queries++;
        if (what == CL_EVENT_COMMAND_EXECUTION_STATUS)
                *(cl_int *) value = e->status;
        else if (what == CL_EVENT_COMMAND_QUEUE)
                *(cl_command_queue *) value = e->queue;
        else
                *(cl_uint *) value = (cl_uint) e->refs - (e->status > CL_COMPLETE && e->queue ? 1 : 0);
        (void) pthread_mutex_unlock(&lock);
        return CL_SUCCESS;
}

static cl_int CL_API_CALL sim_clGetEventProfilingInfo(
                cl_event e, cl_profiling_info what, size_t size, void *value, size_t *size_ret) {
        const cl_ulong start = 1234567;
        cl_int r = CL_PROFILING_INFO_NOT_AVAILABLE;

        scribble();
        (void) pthread_mutex_lock(&lock);
        sim.n.stamps += what == CL_PROFILING_COMMAND_END;
        if (e->queue && e->queue->profiling && e->status == CL_COMPLETE && sim.stamp_ns > 0) {
                *(cl_ulong *) value = start + (what == CL_PROFILING_COMMAND_END ? sim.stamp_ns : 0);
                r = CL_SUCCESS;
        }
        (void) pthread_mutex_unlock(&lock);
        return r;
}

static cl_int CL_API_CALL sim_clSetEventCallback(
                cl_event e, cl_int status, void(CL_CALLBACK *function)(cl_event, cl_int, void *), void *userdata) {
        scribble();
        (void) pthread_mutex_lock(&lock);
        sim.n.callbacks++;
        if (sim.no_callbacks) {
                (void) pthread_mutex_unlock(&lock);
                return CL_OUT_OF_HOST_MEMORY;
        }
        bool over = e->status <= status;
        if (!over) {
                SimCallback *c = calloc(1, sizeof(*c));
                *c = (SimCallback){.function = function, .userdata = userdata, .on = status, .next = e->callbacks};
                e->callbacks = c;
        }
        (void) pthread_mutex_unlock(&lock);
        if (over)
                function(e, e->status, userdata);
        return CL_SUCCESS;
}

static cl_event CL_API_CALL sim_clCreateUserEvent(cl_context context, cl_int *errcode) {
        return event_new(NULL);
}

static cl_int CL_API_CALL sim_clSetUserEventStatus(cl_event e, cl_int status) {
        event_end(e, status);
        return CL_SUCCESS;
}

static cl_int CL_API_CALL sim_clWaitForEvents(cl_uint n, const cl_event *events) {
        if (sim.in_wait)
                sim.in_wait();
        scribble();
        for (int i = 0; i < sim.n_events; i++)
                for (cl_uint k = 0; k < n; k++)
                        if (sim.events[i] == events[k])
                                sim_end(i, CL_COMPLETE);
        return CL_SUCCESS;
}

/* --- queues --- */

static cl_command_queue CL_API_CALL sim_clCreateCommandQueue(
                cl_context context, cl_device_id device, cl_command_queue_properties properties, cl_int *errcode) {
        cl_command_queue q = calloc(1, sizeof(*q));
        q->refs = 1;
        q->in_order = !(properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
        q->profiling = properties & CL_QUEUE_PROFILING_ENABLE;
        sim.n.queues_alive++;
        return q;
}

static cl_command_queue CL_API_CALL sim_clCreateCommandQueueWithProperties(
                cl_context context, cl_device_id device, const cl_queue_properties *list, cl_int *errcode) {
        return sim_clCreateCommandQueue(context, device, list && list[0] == CL_QUEUE_PROPERTIES ? list[1] : 0, errcode);
}

static cl_int CL_API_CALL sim_clRetainCommandQueue(cl_command_queue q) {
        q->refs++;
        return CL_SUCCESS;
}

static cl_int CL_API_CALL sim_clReleaseCommandQueue(cl_command_queue q) {
        sim.n.queue_releases++;
        if (--q->refs == 0) {
                sim.n.queues_alive--;
                free(q);
        }
        return CL_SUCCESS;
}

static cl_int CL_API_CALL sim_clSetCommandQueueProperty(cl_command_queue q, cl_command_queue_properties properties,
                cl_bool enable, cl_command_queue_properties *old) {
        q->in_order = !enable;
        return CL_SUCCESS;
}

static cl_int CL_API_CALL sim_clFlush(cl_command_queue q) {
        scribble();
        sim.n.flushes++;
        return CL_SUCCESS;
}

static cl_int CL_API_CALL sim_clFinish(cl_command_queue q) {
        scribble();
        sim.n.finishes++;
        if (sim.in_finish)
                sim.in_finish();
        sim_complete_to(sim.n_events);
        return CL_SUCCESS;
}

static cl_int enqueue(cl_command_queue q, cl_event *event) {
        if (sim.fail_next != CL_SUCCESS) {
                cl_int r = sim.fail_next;
                sim.fail_next = CL_SUCCESS;
                return r;
        }
        (void) pthread_mutex_lock(&lock);
        cl_event e = event_new(q);
        if (event) {
                e->refs++;
                *event = e;
        }
        sim.events[sim.n_events++ % SIM_COMMANDS_MAX] = e;
        sim.n.enqueues++;
        (void) pthread_mutex_unlock(&lock);
        void (*in_enqueue)(cl_command_queue) = sim.in_enqueue;
        sim.in_enqueue = NULL;
        if (in_enqueue)
                in_enqueue(q);
        return CL_SUCCESS;
}

static cl_int CL_API_CALL sim_clEnqueueNDRangeKernel(cl_command_queue q, cl_kernel kernel, cl_uint dim,
                const size_t *offset, const size_t *global, const size_t *local, cl_uint n, const cl_event *waits,
                cl_event *event) {
        return enqueue(q, event);
}

static cl_int CL_API_CALL sim_clEnqueueReadBuffer(cl_command_queue q, cl_mem mem, cl_bool blocking, size_t offset,
                size_t size, void *ptr, cl_uint n, const cl_event *waits, cl_event *event) {
        cl_int r = enqueue(q, event);
        if (r == CL_SUCCESS && blocking)
                sim_complete_to(sim.n_events);
        return r;
}

/* The application's memory is its own again; the device has not begun. */
static cl_int CL_API_CALL sim_clEnqueueWriteBuffer(cl_command_queue q, cl_mem mem, cl_bool blocking, size_t offset,
                size_t size, const void *ptr, cl_uint n, const cl_event *waits, cl_event *event) {
        return enqueue(q, event);
}

static cl_int CL_API_CALL sim_clEnqueueMarkerWithWaitList(
                cl_command_queue q, cl_uint n, const cl_event *waits, cl_event *event) {
        if (sim.in_marker)
                sim.in_marker(q);
        sim.n.markers++;
        return enqueue(q, event);
}

static cl_int CL_API_CALL sim_clEnqueueNativeKernel(cl_command_queue q, void(CL_CALLBACK *function)(void *), void *args,
                size_t size, cl_uint n_mems, const cl_mem *mems, const void **locations, cl_uint n,
                const cl_event *waits, cl_event *event) {
        return enqueue(q, event);
}

static cl_int CL_API_CALL sim_clEnqueueBarrier(cl_command_queue q) {
        return enqueue(q, NULL);
}

/* --- devices --- */

static cl_int answer(const void *answer_value, size_t n, size_t size, void *value, size_t *size_ret) {
        if (value && size < n)
                return CL_INVALID_VALUE;
        if (value)
                memcpy(value, answer_value, n);
        if (size_ret)
                *size_ret = n;
        return CL_SUCCESS;
}

static cl_int CL_API_CALL sim_clGetDeviceInfo(
                cl_device_id d, cl_device_info what, size_t size, void *value, size_t *size_ret) {
        static const cl_uint khr[4] = {1, 0x65, 2, 3}, nv_bus = 0x17, nv_slot = 9, nv_domain = 2;
        static const struct {
                cl_uint type;
                cl_char unused[17], bus, device, function;
        } amd = {.type = 1, .bus = (cl_char) 0xC1, .device = 0x1F, .function = 7};
        const cl_uint vendor = sim.is_nvidia ? 0x10DE : 0x1002;
        const cl_device_type type = sim.is_cpu ? CL_DEVICE_TYPE_CPU : CL_DEVICE_TYPE_GPU;
        cl_platform_id p = (cl_platform_id) (void *) &platform;
        cl_device_id parent = d == sim_sub_device ? sim_device : NULL;
        static const char name[] = "Big GPU (tm) 3.5--X";

        scribble();
        if (what == CL_DEVICE_NAME)
                return answer(name, sizeof(name), size, value, size_ret);
        if (what == CL_DEVICE_PLATFORM)
                return answer(&p, sizeof(p), size, value, size_ret);
        if (what == CL_DEVICE_PARENT_DEVICE)
                return answer(&parent, sizeof(parent), size, value, size_ret);
        if (what == CL_DEVICE_VENDOR_ID)
                return answer(&vendor, sizeof(vendor), size, value, size_ret);
        if (what == CL_DEVICE_TYPE)
                return answer(&type, sizeof(type), size, value, size_ret);
        if (what == 0x410F && streq_ptr(sim.pci, "khr"))
                return answer(khr, sizeof(khr), size, value, size_ret);
        if (what == 0x4008 && streq_ptr(sim.pci, "nv"))
                return answer(&nv_bus, sizeof(nv_bus), size, value, size_ret);
        if (what == 0x4009 && streq_ptr(sim.pci, "nv"))
                return answer(&nv_slot, sizeof(nv_slot), size, value, size_ret);
        if (what == 0x400A && streq_ptr(sim.pci, "nv"))
                return answer(&nv_domain, sizeof(nv_domain), size, value, size_ret);
        if (what == 0x4037 && streq_ptr(sim.pci, "amd"))
                return answer(&amd, sizeof(amd), size, value, size_ret);
        return CL_INVALID_VALUE;
}

static cl_int CL_API_CALL sim_clGetDeviceIDs(
                cl_platform_id p, cl_device_type type, cl_uint n, cl_device_id *ret, cl_uint *n_ret) {
        if (n_ret)
                *n_ret = 2;
        if (ret && n >= 2) {
                ret[0] = sim_device;
                ret[1] = sim_twin;
        }
        return CL_SUCCESS;
}

static cl_int CL_API_CALL sim_clGetPlatformInfo(
                cl_platform_id p, cl_platform_info what, size_t size, void *value, size_t *size_ret) {
        return answer("Some Platform", sizeof("Some Platform"), size, value, size_ret);
}

static void *CL_API_CALL sim_clGetExtensionFunctionAddress(const char *name) {
        return streq(name, "clCreateCommandQueueWithPropertiesKHR")
                        ? (void *) (uintptr_t) sim_clCreateCommandQueueWithProperties
                        : NULL;
}

#define F(name) .name = sim_##name
const cl_icd_dispatch sim_dispatch = {
                F(clRetainEvent),
                F(clReleaseEvent),
                F(clGetEventInfo),
                F(clGetEventProfilingInfo),
                F(clSetEventCallback),
                F(clCreateUserEvent),
                F(clSetUserEventStatus),
                F(clWaitForEvents),
                F(clCreateCommandQueue),
                F(clCreateCommandQueueWithProperties),
                F(clRetainCommandQueue),
                F(clReleaseCommandQueue),
                F(clSetCommandQueueProperty),
                F(clFlush),
                F(clFinish),
                F(clEnqueueNDRangeKernel),
                F(clEnqueueReadBuffer),
                F(clEnqueueWriteBuffer),
                F(clEnqueueMarkerWithWaitList),
                F(clEnqueueNativeKernel),
                F(clEnqueueBarrier),
                F(clGetDeviceInfo),
                F(clGetDeviceIDs),
                F(clGetPlatformInfo),
                F(clGetExtensionFunctionAddress),
};

/* --- libxsched --- */

bool late_load(void) {
        return true;
}

int xsched_queue_new(const XschedQueueInfo *info, XschedQueue **ret) {
        XschedQueue *q = calloc(1, sizeof(*q));
        *q = (XschedQueue){.refs = 1, .info = *info};
        (void) snprintf(q->device, sizeof(q->device), "%s", info->device);
        library.queues_alive++;
        library.last = *ret = q;
        return 0;
}

XschedQueue *xsched_queue_unref(XschedQueue *q) {
        if (q && --q->refs == 0) {
                library.queues_alive--;
                free(q);
        }
        return NULL;
}

int xsched_queue_begin(XschedQueue *q) {
        library.launches++;
        __atomic_fetch_add(&q->outstanding, library.track, __ATOMIC_SEQ_CST);
        return library.track ? XSCHED_TRACKED : XSCHED_UNTRACKED;
}

int xsched_queue_begin_nowait(XschedQueue *q) {
        library.nowait++;
        return xsched_queue_begin(q);
}

int xsched_queue_begin_bounded(XschedQueue *q, void (*wait)(void *userdata), void *userdata) {
        int r = xsched_queue_begin(q);
        if (r == XSCHED_TRACKED)
                wait(userdata);
        return r;
}

void xsched_queue_complete(XschedQueue *q, uint32_t n, uint64_t device_ns) {
        library.completed += (int) n;
        library.device_ns += device_ns;
        __atomic_fetch_sub(&q->outstanding, (int) n, __ATOMIC_SEQ_CST);
}

void xsched_queue_drained(XschedQueue *q) {
        library.drained++;
}

uint32_t xsched_queue_limit(XschedQueue *q) {
        return library.track ? library.limit : 0;
}

uint32_t xsched_queue_limit_for(XschedQueue *q, uint64_t each_ns) {
        library.each_ns = each_ns;
        if (!library.track)
                return 0;
        return library.budget_ns > 0 && each_ns > 0
                        ? (uint32_t) MAX(library.budget_ns / each_ns, (uint64_t) library.limit)
                        : library.limit;
}

uint64_t xsched_queue_lead(XschedQueue *q) {
        return library.lead_ns;
}

void xsched_queue_started(XschedQueue *q, uint64_t since_ns) {
        library.started_ns = since_ns;
}

void xsched_queue_look(XschedQueue *q) {
        __atomic_store_n(&q->look_wanted, true, __ATOMIC_SEQ_CST);
}

void xsched_queue_look_in(XschedQueue *q, uint64_t ns) {
        library.look_in_ns = ns;
        xsched_queue_look(q);
}

bool library_look(XschedQueue *q) {
        if (!__atomic_exchange_n(&q->look_wanted, false, __ATOMIC_SEQ_CST))
                return false;
        library.looks++;
        q->info.look(q, q->info.userdata);
        return true;
}

void xsched_queue_boost(XschedQueue *q) {
        library.boosts++;
}

int xsched_queue_get_state(XschedQueue *q) {
        return library.held ? XSCHED_QUEUE_HELD : 0;
}
