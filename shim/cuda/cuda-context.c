/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Primary and green contexts: see cuda-context.h
 */

#include "shim/cuda/cuda-context.h"

#include <pthread.h>
#include <stdatomic.h>

#include "common/signal-mask.h"
#include "common/thread-util.h"
#include "shim/cuda/cuda-ask.h"
#include "shim/cuda/cuda-capture.h"
#include "shim/cuda/cuda-next.h"
#include "shim/cuda/cuda-track.h"

#define DEVICES_MAX 64

typedef struct Primary {
        _Atomic(CudaContext) context;
        _Atomic int n_users; /* without green contexts */
} Primary;

/* A record is reused, and never freed: readers take no lock. */
typedef struct Green {
        _Atomic(CudaGreen) handle;    /* NULL: free */
        _Atomic(CudaContext) context; /* NULL: nobody has asked */
        _Atomic CudaDevice device;
        _Atomic bool ended; /* with its primary context; the program has its handle still */
        _Atomic uint64_t serial;
        struct Green *next;
} Green;

static Primary primaries[DEVICES_MAX];
static pthread_mutex_t greens_lock = PTHREAD_MUTEX_INITIALIZER; /* of changes; taken with signals blocked */
static _Atomic(Green *) greens;
static _Atomic bool careful; /* the driver does not do as cuda-context.h says, or something was not seen */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* No CUDA object of the parent's can be used in the child. */
static void fork_child(void) {
        greens_lock = (pthread_mutex_t) PTHREAD_MUTEX_INITIALIZER;
        atomic_store(&greens, NULL);
}

static void register_once(void) {
        (void) thread_atfork(NULL, NULL, fork_child);
}

/* Each stream may have ended. */
static void streams_unknown(void) {
        cuda_track_mark_tails();
        cuda_capture_for_ever();
}

/* --- primary contexts --- */

static Primary *primary_of(CudaDevice device) {
        return device >= 0 && device < DEVICES_MAX ? &primaries[device] : NULL;
}

static CudaContext primary_context(CudaDevice device) {
        const Primary *p = primary_of(device);

        return p ? atomic_load(&p->context) : NULL;
}

static bool is_primary(CudaContext context) {
        for (CudaDevice i = 0; i < DEVICES_MAX; i++)
                if (primary_context(i) == context)
                        return true;
        return false;
}

static bool primary_has_ended(CudaDevice device) {
        unsigned flags;
        int active = 1;

        return CUDA_CALL(cuDevicePrimaryCtxGetState, CudaResult(*)(CudaDevice, unsigned *, int *), device, &flags,
                               &active) == CUDA_RESULT_SUCCESS &&
                        !active;
}

void cuda_context_retained(CudaContext primary, CudaDevice device) {
        Primary *p = primary_of(device);

        if (!p)
                return;
        atomic_store(&p->context, primary);
        atomic_fetch_add(&p->n_users, 1);
}

static void primary_released(CudaDevice device, bool released, bool ended) {
        Primary *p = primary_of(device);

        if (p && ended)
                atomic_store(&p->n_users, 0);
        else if (p && released)
                atomic_fetch_sub(&p->n_users, 1);
}

/* --- green contexts --- */

static Green *green_find(CudaGreen handle) {
        for (Green *g = atomic_load(&greens); g; g = g->next)
                if (atomic_load(&g->handle) == handle)
                        return g;
        return NULL;
}

static Green *green_record(CudaGreen handle) {
        Green *g = green_find(handle) ?: green_find(NULL);
        if (g)
                return g;
        g = calloc(1, sizeof(*g));
        if (!g)
                return NULL;
        g->next = atomic_load(&greens);
        atomic_store(&greens, g);
        return g;
}

void cuda_context_green(CudaGreen green, CudaDevice device) {
        PROTECT_ERRNO;
        SIGNALS_BLOCKED;

        if (!green)
                return;
        (void) pthread_once(&once, register_once);
        (void) pthread_mutex_lock(&greens_lock);
        Green *g = green_record(green);
        if (g) {
                atomic_fetch_add(&g->serial, 1);
                atomic_store(&g->context, NULL);
                atomic_store(&g->device, device);
                atomic_store(&g->ended, false);
                atomic_store(&g->handle, green);
        } else
                atomic_store(&careful, true);
        (void) pthread_mutex_unlock(&greens_lock);
}

/* NULL: it is not known. `g`: its record, if it has one. */
static CudaContext green_context(CudaGreen green, Green *g) {
        CudaContext context = g ? atomic_load(&g->context) : NULL;

        if (context)
                return context;
        CUDA_WITH_RELAXED_CAPTURE;
        if (CUDA_CALL(cuCtxFromGreenCtx, CudaResult(*)(CudaContext *, CudaGreen), &context, green) !=
                                        CUDA_RESULT_SUCCESS ||
                        !context || is_primary(context)) {
                atomic_store(&careful, true);
                return NULL;
        }
        if (g)
                atomic_store(&g->context, context);
        return context;
}

/* Who made a green context of which there is no record is not known, and so not with what it ends. */
void cuda_context_green_stream(CudaGreen green, CudaStream stream) {
        PROTECT_ERRNO;
        Green *g = green_find(green);
        CudaContext context = g ? green_context(green, g) : NULL, of_stream = NULL;

        if (!context ||
                        CUDA_CALL(cuStreamGetCtx, CudaResult(*)(CudaStream, CudaContext *), stream, &of_stream) !=
                                        CUDA_RESULT_SUCCESS ||
                        of_stream != context)
                atomic_store(&careful, true);
}

/* Whether the primary context has no user but this green context. */
static bool is_last_user(const Green *green, CudaDevice device) {
        const Primary *p = primary_of(device);

        if (!p || atomic_load(&p->n_users) > 0)
                return false;
        for (Green *g = atomic_load(&greens); g; g = g->next)
                if (g != green && atomic_load(&g->handle) && atomic_load(&g->device) == device &&
                                !atomic_load(&g->ended))
                        return false;
        return true;
}

void cuda_context_leave_green(CudaGreen green, CudaGreenEnd *ret) {
        PROTECT_ERRNO;
        Green *g = green ? green_find(green) : NULL;
        CudaContext context = green ? green_context(green, g) : NULL;

        if (atomic_load(&careful))
                context = NULL;
        *ret = (CudaGreenEnd){.context = context, .device = g ? atomic_load(&g->device) : -1};
        if (g) {
                ret->record = g;
                ret->serial = atomic_load(&g->serial);
        }
        if (g && is_last_user(g, ret->device))
                ret->primary = primary_context(ret->device);
        if (context)
                cuda_track_rest_context(context);
        else if (green)
                streams_unknown();
        cuda_track_leave_context(context);
        cuda_track_leave_shared_context(ret->primary);
}

/* Its handle may be another one's by now, with the record. */
static void green_forget(const CudaGreenEnd *e) {
        SIGNALS_BLOCKED;

        (void) pthread_mutex_lock(&greens_lock);
        for (Green *g = atomic_load(&greens); g; g = g->next)
                if (g == e->record && atomic_load(&g->serial) == e->serial)
                        atomic_store(&g->handle, NULL);
        (void) pthread_mutex_unlock(&greens_lock);
}

void cuda_context_left_green(const CudaGreenEnd *e, bool destroyed) {
        PROTECT_ERRNO;
        cuda_track_left_context(e->context, destroyed);
        if (e->primary)
                cuda_track_left_context(e->primary, primary_has_ended(e->device));
        if (destroyed)
                green_forget(e);
}

/* --- the end of a primary context, and of its green contexts --- */

static bool green_is_of(const Green *g, CudaDevice device) {
        return atomic_load(&g->handle) && atomic_load(&g->device) == device && !atomic_load(&g->ended);
}

void cuda_context_leave_primary(CudaDevice device) {
        PROTECT_ERRNO;
        cuda_track_leave_shared_context(primary_context(device));
        for (Green *g = atomic_load(&greens); g; g = g->next)
                if (green_is_of(g, device))
                        cuda_track_leave_shared_context(green_context(atomic_load(&g->handle), g));
}

void cuda_context_left_primary(CudaDevice device, bool released) {
        PROTECT_ERRNO;
        bool ended = primary_has_ended(device), unknown = false; /* the result may be another call's error */

        primary_released(device, released, ended);
        for (Green *g = atomic_load(&greens); g; g = g->next) {
                if (!green_is_of(g, device))
                        continue;
                CudaContext context = atomic_load(&g->context);
                bool known = context && !atomic_load(&careful);
                cuda_track_left_context(context, ended && known);
                unknown = unknown || !known;
                atomic_store(&g->ended, ended);
        }
        cuda_track_left_context(primary_context(device), ended);
        if (ended && unknown)
                streams_unknown();
}
