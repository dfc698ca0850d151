/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Green contexts of the stand-in
 *
 * As the driver 580.159.04 on an H200: the handle of a green context is that of its context. To destroy one waits for
 * nothing: what is in flight goes on, and so do events. Calls about its streams are refused then as of a destroyed
 * context, and so are launches, waits and new things where it is still current, while its device can be asked for. A
 * new one gets the handle of one that was destroyed, and so do its streams. A primary context with green ones is not
 * reset. How the driver ends the work of destroyed green contexts with the primary one was not seen: here it is done
 * before.
 *
 * FAKE_CUDA_GREEN=elsewhere: streams say that they belong to the primary context; unknown: no green context has a
 * context; reset: they end when the primary context is reset.
 */

#include <stdlib.h>
#include <string.h>

#include "fake-device.h"

#define DEFAULT_STREAM 1U /* CU_GREEN_CTX_DEFAULT_STREAM */
#define NON_BLOCKING   1U

static Context *greens;
static Stream *ended_streams;
static atomic_bool refuses;
static _Atomic(void (*)(void)) on_destroyed;

static bool behaves(const char *how) {
        const char *value = getenv("FAKE_CUDA_GREEN");

        return value && strcmp(value, how) == 0;
}

bool fake_green_says_primary(const Context *c) {
        return c->is_green && behaves("elsewhere");
}

/* --- with the lock --- */

Stream *fake_green_stream_used(void) {
        Stream *s = ended_streams;

        if (s)
                ended_streams = s->next;
        return s;
}

static Context *green_used(void) {
        for (Context *c = greens; c; c = c->next_green)
                if (c->destroyed)
                        return c;
        Context *c = calloc(1, sizeof(*c));
        c->next_green = greens;
        greens = c;
        return c;
}

/* --- ends --- */

void fake_green_stream_ended(Stream *s) {
        pthread_mutex_lock(&fake_lock);
        s->destroyed = true;
        s->next = ended_streams;
        ended_streams = s;
        pthread_mutex_unlock(&fake_lock);
}

static void end(Context *c) {
        fake_streams_end(c);
        pthread_mutex_lock(&fake_lock);
        c->legacy.destroyed = true;
        c->destroyed = true;
        pthread_mutex_unlock(&fake_lock);
}

/* Whether the primary context must not be reset. */
bool fake_green_keeps(int device) {
        bool any = false;

        pthread_mutex_lock(&fake_lock);
        for (const Context *c = greens; c; c = c->next_green)
                any = any || (c->device == device && !c->destroyed);
        pthread_mutex_unlock(&fake_lock);
        return any && !behaves("reset");
}

void fake_greens_end(int device) {
        for (Context *c = greens; c; c = c->next_green)
                if (c->device == device && !c->destroyed)
                        end(c);
}

/* --- for programs --- */

API int cuGreenCtxCreate(Context **ret, const void *resources, int device, unsigned flags) {
        ENTER;
        if (flags != DEFAULT_STREAM || !resources)
                return INVALID_VALUE;
        pthread_mutex_lock(&fake_users_lock);
        const Context *primary = fake_primary_retain(device);
        pthread_mutex_lock(&fake_lock);
        Context *c = green_used();
        *c = (Context){
                        .device = device,
                        .channels = primary->channels,
                        .is_green = true,
                        .next_green = c->next_green,
        };
        pthread_mutex_unlock(&fake_lock);
        pthread_mutex_unlock(&fake_users_lock);
        *ret = c;
        return SUCCESS;
}

API int cuGreenCtxDestroy(Context *c) {
        ENTER;
        if (c->destroyed)
                return CONTEXT_IS_DESTROYED;
        if (refuses)
                return INVALID_CONTEXT;
        pthread_mutex_lock(&fake_users_lock);
        int device = c->device;
        end(c);
        int r = fake_primary_release(device);
        pthread_mutex_unlock(&fake_users_lock);
        void (*f)(void) = atomic_exchange(&on_destroyed, NULL);
        if (f)
                f();
        return r;
}

API int cuGreenCtxStreamCreate(Stream **ret, Context *c, unsigned flags, int priority) {
        ENTER;
        if (c->destroyed)
                return CONTEXT_IS_DESTROYED;
        if (flags != NON_BLOCKING)
                return INVALID_VALUE;
        *ret = fake_stream_new(c);
        return SUCCESS;
}

API int cuCtxFromGreenCtx(Context **ret, Context *c) {
        ENTER;
        if (behaves("unknown"))
                return NOT_SUPPORTED;
        if (c->destroyed)
                return CONTEXT_IS_DESTROYED;
        *ret = c;
        return SUCCESS;
}

API unsigned long fake_cuda_dead_calls(void) {
        return fake_n_dead_calls;
}

API void fake_cuda_refuse_green(bool refuse) {
        refuses = refuse;
}

API void fake_cuda_on_green_destroyed(void (*f)(void)) {
        on_destroyed = f;
}
