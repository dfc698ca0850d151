/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A libcuda.so.1 of our own: streams, events, captures and graphs that behave as the driver's, and no GPU
 *
 * A stream is a thread that does what was submitted, in order. Kernels are C functions that take the time that they are
 * told to, and compute. Calls are refused as by the driver 580 on an H200: queries while any thread captures in global
 * mode, queries of a stream that is being captured (which invalidate the capture), and queries without a context.
 * Unlike there, the legacy default stream does not wait for others. In a child after fork() each call is refused. A
 * call after the process began to end prints an error, and ends the process with status 99. Calls about events whose
 * context has ended are refused and counted.
 */

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake-device.h"
#include "fake-kernels.h"

#define NAMED_NS 20000U /* what a kernel of a module takes, beside what it computes */

static Context primaries[2];
static atomic_bool initialised, ended, forked;

bool fake_enter(void) {
        if (!ended)
                return !forked;
        static const char text[] = "libcuda was called after its end\n";
        (void) !write(STDERR_FILENO, text, sizeof(text) - 1);
        _exit(99);
}

/* --- init, contexts, memory --- */

static void end(void) {
        ended = true;
}

static void fork_child(void) {
        forked = true;
        fake_lock = (pthread_mutex_t) PTHREAD_MUTEX_INITIALIZER;
        fake_changed = (pthread_cond_t) PTHREAD_COND_INITIALIZER;
}

API int cuInit(unsigned flags) {
        ENTER;
        if (!atomic_exchange(&initialised, true)) {
                atexit(end);
                pthread_atfork(NULL, NULL, fork_child);
        }
        return SUCCESS;
}

API int cuDeviceGet(int *ret, int index) {
        ENTER;
        *ret = index;
        return SUCCESS;
}

API int cuDeviceGetPCIBusId(char *ret, int n, int device) {
        ENTER;
        snprintf(ret, (size_t) n, "0000:%02X:00.0", 0xA0U + (unsigned) device);
        return SUCCESS;
}

API int cuDeviceGetName(char *ret, int n, int device) {
        ENTER;
        snprintf(ret, (size_t) n, "Fake GPU %d", device);
        return SUCCESS;
}

pthread_mutex_t fake_users_lock = PTHREAD_MUTEX_INITIALIZER;

Context *fake_primary(int device) {
        return &primaries[device];
}

static unsigned long long newest_id; /* of contexts; with the lock */

Context *fake_primary_retain(int device) {
        Context *c = &primaries[device];

        if (c->n_users++ == 0) {
                c->device = device;
                c->id = ++newest_id;
        }
        fake_channels_start(&c->channels, device);
        return c;
}

/* It ends with its last user. */
int fake_primary_release(int device) {
        Context *c = &primaries[device];

        bool is_used = c->n_users > 0, ends = c->n_users == 1;
        c->n_users -= is_used;
        if (ends)
                fake_context_end(c);
        return is_used ? SUCCESS : INVALID_CONTEXT;
}

API int cuDevicePrimaryCtxRetain(Context **ret, int device) {
        ENTER;
        pthread_mutex_lock(&fake_users_lock);
        *ret = fake_primary_retain(device);
        pthread_mutex_unlock(&fake_users_lock);
        return SUCCESS;
}

static _Atomic(void (*)(void)) on_primary_ended;

API void fake_cuda_on_primary_ended(void (*f)(void)) {
        on_primary_ended = f;
}

static void tell_of_end(void) {
        void (*f)(void) = atomic_exchange(&on_primary_ended, NULL);

        if (f)
                f();
}

API int cuDevicePrimaryCtxRelease_v2(int device) {
        ENTER;
        pthread_mutex_lock(&fake_users_lock);
        int r = fake_primary_release(device);
        bool ends = r == SUCCESS && primaries[device].n_users == 0;
        pthread_mutex_unlock(&fake_users_lock);
        if (ends)
                tell_of_end();
        return r;
}

API int cuDevicePrimaryCtxGetState(int device, unsigned *ret_flags, int *ret_active) {
        ENTER;
        *ret_flags = 0;
        if (device < 0 || device >= (int) (sizeof(primaries) / sizeof(primaries[0])))
                return INVALID_DEVICE;
        pthread_mutex_lock(&fake_users_lock);
        *ret_active = primaries[device].n_users > 0;
        pthread_mutex_unlock(&fake_users_lock);
        return SUCCESS;
}

API int cuStreamGetCtx(FakeStream handle, Context **ret) {
        ENTER;
        Stream *s = fake_stream_of(handle, false);
        USE(s);
        *ret = fake_green_says_primary(s->context) ? &primaries[s->context->device] : s->context;
        return SUCCESS;
}

API int cuCtxCreate_v2(Context **ret, unsigned flags, int device) {
        ENTER;
        *ret = fake_current = calloc(1, sizeof(Context));
        fake_current->device = device;
        fake_channels_start(&fake_current->channels, device);
        return SUCCESS;
}

API int cuCtxSetCurrent(Context *c) {
        ENTER;
        fake_current = c;
        return SUCCESS;
}

API int cuCtxGetCurrent(Context **ret) {
        ENTER;
        *ret = fake_current;
        return SUCCESS;
}

static _Thread_local Context *pushed[8];
static _Thread_local unsigned n_pushed;

API int cuCtxPushCurrent_v2(Context *c) {
        ENTER;
        if (c->destroyed)
                atomic_fetch_add(&fake_n_dead_calls, 1);
        pushed[n_pushed++] = fake_current;
        fake_current = c;
        return SUCCESS;
}

API int cuCtxPopCurrent_v2(Context **ret) {
        ENTER;
        *ret = fake_current;
        fake_current = pushed[--n_pushed];
        return SUCCESS;
}

static _Atomic(void (*)(void)) on_id;

API void fake_cuda_on_id(void (*f)(void)) {
        on_id = f;
}

API int cuCtxGetId(Context *c, unsigned long long *ret) {
        ENTER;
        pthread_mutex_lock(&fake_users_lock);
        *ret = c->id;
        pthread_mutex_unlock(&fake_users_lock);
        void (*f)(void) = atomic_exchange(&on_id, NULL);
        if (f)
                f();
        return SUCCESS;
}

/* Also of a green context that is destroyed. */
API int cuCtxGetDevice(int *ret) {
        ENTER;
        if (!fake_current)
                return INVALID_CONTEXT;
        *ret = fake_current->device;
        return SUCCESS;
}

/* The context itself stays, for the next user. */
API int cuDevicePrimaryCtxReset_v2(int device) {
        ENTER;
        pthread_mutex_lock(&fake_users_lock);
        bool ends = !fake_green_keeps(device);
        if (ends) {
                fake_greens_end(device);
                fake_context_end(&primaries[device]);
                primaries[device].n_users = 0;
        }
        pthread_mutex_unlock(&fake_users_lock);
        if (!ends)
                return NOT_PERMITTED;
        tell_of_end();
        return SUCCESS;
}

/* Refuses primary contexts. */
API int cuCtxDestroy_v2(Context *c) {
        ENTER;
        for (size_t i = 0; i < sizeof(primaries) / sizeof(primaries[0]); i++)
                if (c == &primaries[i])
                        return INVALID_CONTEXT;
        fake_context_end(c);
        if (fake_current == c)
                fake_current = NULL;
        fake_channels_end(&c->channels);
        memset(c, 0xEE, sizeof(*c));
        free(c);
        return SUCCESS;
}

/* Called under the lock. */
static bool has_stream(const Context *c, const Stream *s) {
        const Stream *i = c->streams;

        while (i && i != s)
                i = i->next;
        return i;
}

API int cuCtxSynchronize(void) {
        ENTER;
        if (!fake_current)
                return INVALID_CONTEXT;
        if (fake_current->destroyed)
                return CONTEXT_IS_DESTROYED;
        pthread_mutex_lock(&fake_lock);
        bool has_legacy = fake_current->has_legacy;
        pthread_mutex_unlock(&fake_lock);
        if (has_legacy)
                fake_stream_wait(&fake_current->legacy);
        pthread_mutex_lock(&fake_lock);
        for (Stream *s = fake_current->streams; s;)
                if (s->work->done == s->work->submitted)
                        s = s->next;
                else {
                        pthread_cond_wait(&fake_changed, &fake_lock);
                        /* Another thread may have destroyed it meanwhile. */
                        s = has_stream(fake_current, s) ? s : fake_current->streams;
                }
        pthread_mutex_unlock(&fake_lock);
        return SUCCESS;
}

API int cuMemAlloc_v2(uint64_t *ret, size_t size) {
        ENTER;
        *ret = (uintptr_t) calloc(1, size);
        return SUCCESS;
}

API int cuMemAllocHost_v2(void **ret, size_t size) {
        ENTER;
        *ret = calloc(1, size);
        return SUCCESS;
}

API int cuMemFree_v2(uint64_t p) {
        ENTER;
        free((void *) (uintptr_t) p);
        return SUCCESS;
}

/* Its text is the module. */
API int cuModuleLoadData(const void **ret, const void *text) {
        ENTER;
        *ret = text;
        return SUCCESS;
}

API int cuModuleGetFunction(void **ret, void *module, const char *name) {
        ENTER;
        if (module)
                *ret = (void *) (uintptr_t) fake_kernel_find(module, name);
        else
                *ret = strcmp(name, "triple") == 0 ? (void *) (uintptr_t) 0x1000 : NULL;
        return *ret ? SUCCESS : NOT_FOUND;
}

/* --- streams --- */

API int cuStreamCreate(Stream **ret, unsigned flags) {
        ENTER;
        if (!fake_current)
                return INVALID_CONTEXT;
        if (fake_current->destroyed)
                return CONTEXT_IS_DESTROYED;
        *ret = fake_stream_new(fake_current);
        (*ret)->blocking = !(flags & 1);
        return SUCCESS;
}

static _Atomic(FakeStream) queried; /* by on_query() */
static _Atomic(void (*)(void)) on_query;

API void fake_cuda_on_query(void (*f)(void)) {
        on_query = f;
}

/* Refuses a stream that is being captured. Submitted work is still done. The stream's memory is overwritten, so that a
 * later use of it is noticed. */
API int cuStreamDestroy_v2(Stream *s) {
        ENTER;
        USE(s);
        if (queried == s)
                atomic_fetch_add(&fake_n_dead_calls, 1);
        if (s->capture)
                return CAPTURE_UNSUPPORTED;
        pthread_mutex_lock(&fake_lock);
        for (Stream **p = &s->context->streams; *p; p = &(*p)->next)
                if (*p == s) {
                        *p = s->next;
                        break;
                }
        pthread_mutex_unlock(&fake_lock);
        fake_stream_end(s);
        memset(s, 0xEE, sizeof(*s));
        free(s);
        return SUCCESS;
}

API int cuStreamSynchronize(FakeStream handle) {
        ENTER;
        Stream *s = fake_stream_of(handle, false);
        USE(s);
        if (s->capture)
                return CAPTURE_UNSUPPORTED;
        fake_stream_wait(s);
        return SUCCESS;
}

API int cuStreamSynchronize_ptsz(FakeStream handle) {
        return cuStreamSynchronize(handle ? handle : (FakeStream) (uintptr_t) 2);
}

API int cuStreamQuery(FakeStream handle) {
        ENTER;
        void (*f)(void) = atomic_exchange(&on_query, NULL);
        if (f) {
                queried = handle;
                f();
                queried = NULL;
        }
        Stream *s = fake_stream_of(handle, false);
        USE(s);
        pthread_mutex_lock(&fake_lock);
        int r = s->work->done == s->work->submitted ? SUCCESS : NOT_READY;
        if (s->capture) {
                s->spoiled = true;
                r = CAPTURE_UNSUPPORTED;
        } else if (!fake_may_ask())
                r = CAPTURE_UNSUPPORTED;
        pthread_mutex_unlock(&fake_lock);
        return r;
}

API int cuStreamWaitEvent(FakeStream handle, Event *e, unsigned flags) {
        ENTER;
        return fake_submit(fake_stream_of(handle, false), (Op){.kind = OP_WAIT, .event = e});
}

/* --- work --- */

static _Atomic(void (*)(void)) on_launch;

API void fake_cuda_on_launch(void (*f)(void)) {
        on_launch = f;
}

static int launch(Stream *s, void *f, void **params) {
        void (*tell)(void) = on_launch;

        if (tell)
                tell();
        if (fake_kernel_is(f)) {
                Op op = {.kind = OP_KERNEL, .kernel = f, .ns = NAMED_NS};
                fake_kernel_read(f, params, op.params);
                return fake_submit(s, op);
        }
        if (f != (void *) (uintptr_t) 0x1000)
                return INVALID_HANDLE;
        return fake_submit(s,
                        (Op){
                                        .kind = OP_KERNEL,
                                        .a = *(int **) params[0],
                                        .k = *(int *) params[1],
                                        .n = *(unsigned *) params[2],
                                        .ns = *(uint64_t *) params[3],
                        });
}

API int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                unsigned shared, FakeStream stream, void **params, void **extra) {
        ENTER;
        return launch(fake_stream_of(stream, false), f, params);
}

API int cuLaunchKernel_ptsz(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                unsigned shared, FakeStream stream, void **params, void **extra) {
        ENTER;
        return launch(fake_stream_of(stream, true), f, params);
}

/* A function that the layer does not know. */
API int cuLaunchOfTomorrow(FakeStream stream, void *f, void **params) {
        ENTER;
        return launch(fake_stream_of(stream, false), f, params);
}

API int cuLaunchKernelEx(const FakeLaunchConfig *config, void *f, void **params, void **extra) {
        ENTER;
        return launch(fake_stream_of(config->stream, false), f, params);
}

API int cuLaunchCooperativeKernelMultiDevice(FakeLaunchParams *list, unsigned n, unsigned flags) {
        ENTER;
        for (unsigned i = 0; i < n; i++) {
                int r = launch(fake_stream_of(list[i].stream, false), list[i].function, list[i].params);
                if (r != SUCCESS)
                        return r;
        }
        return SUCCESS;
}

API int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t size, FakeStream stream) {
        ENTER;
        return fake_submit(fake_stream_of(stream, false),
                        (Op){.kind = OP_COPY, .to = (void *) (uintptr_t) to, .from = from, .size = size});
}

API int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t size, FakeStream stream) {
        ENTER;
        return fake_submit(fake_stream_of(stream, false),
                        (Op){.kind = OP_COPY, .to = to, .from = (void *) (uintptr_t) from, .size = size});
}

API int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) {
        int r = cuMemcpyDtoHAsync_v2(to, from, size, NULL);
        return r == SUCCESS ? cuStreamSynchronize(NULL) : r;
}

API int cuMemsetD8Async(uint64_t to, unsigned char value, size_t size, FakeStream stream) {
        ENTER;
        return fake_submit(fake_stream_of(stream, false),
                        (Op){.kind = OP_SET, .to = (void *) (uintptr_t) to, .k = value, .size = size});
}

API int cuLaunchHostFunc(FakeStream stream, void (*f)(void *), void *userdata) {
        ENTER;
        return fake_submit(fake_stream_of(stream, false), (Op){.kind = OP_HOST, .host = f, .userdata = userdata});
}

/* --- look-ups --- */

API int cuGetProcAddress_v2(const char *name, void **ret, int version, uint64_t flags, int *ret_status) {
        ENTER;
        static const char *const suffixes[][3] = {{"_v2", "", NULL}, {"_ptsz", "_v2", ""}};
        void *self = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
        char full[128];

        *ret = NULL;
        for (unsigned i = 0; i < 3 && !*ret && suffixes[flags == 2][i]; i++) {
                snprintf(full, sizeof(full), "%s%s", name, suffixes[flags == 2][i]);
                *ret = dlsym(self, full);
        }
        dlclose(self);
        if (ret_status)
                *ret_status = *ret ? 0 : 1;
        return *ret ? SUCCESS : NOT_FOUND;
}

API int cuGetProcAddress(const char *name, void **ret, int version, uint64_t flags) {
        return cuGetProcAddress_v2(name, ret, version, flags, NULL);
}

/* --- for the tests --- */

API unsigned long fake_cuda_launches(void) {
        return fake_n_launches;
}

API unsigned long fake_cuda_captured(void) {
        return fake_n_captured;
}
