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
#include "shim/cuda/cuda-queue.h"
#include "shim/cuda/cuda-stack.h"
#include "shim/cuda/cuda-track.h"

#define DEVICES_MAX 64

typedef struct Primary {
        _Atomic(CudaContext) context;
        _Atomic uint64_t n_entered; /* users that have got it */
        /* Under the lock: */
        uint64_t id;      /* of the context, when a user last got it; 0: not known */
        int n_users;      /* that are not about to leave it, without green contexts */
        uint32_t leavers; /* calls that may end it: cuda_context_leaver() */
        uint64_t epoch;   /* how often it had no such user, nor a green context, and so may have ended */
} Primary;

/* A record is reused, and never freed: readers take no lock. */
typedef struct Green {
        bool leaves;                  /* it is about to be destroyed; under the lock */
        _Atomic(CudaGreen) handle;    /* NULL: free */
        _Atomic(CudaContext) context; /* NULL: not known */
        _Atomic CudaDevice device;
        _Atomic bool ended; /* with its primary context; the program has its handle still */
        _Atomic uint64_t serial;
        struct Green *next;
} Green;

static Primary primaries[DEVICES_MAX];
/* Of changes. Taken with signals blocked, and the driver is not called under it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(Green *) greens;
static uint64_t newest;      /* serial; under the lock */
static _Atomic bool careful; /* the driver does not do as cuda-context.h says, or something was not seen */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* No CUDA object of the parent's can be used in the child. */
static void fork_child(void) {
        lock = (pthread_mutex_t) PTHREAD_MUTEX_INITIALIZER;
        atomic_store(&greens, NULL);
        for (CudaDevice i = 0; i < DEVICES_MAX; i++)
                primaries[i].leavers = 0;
}

static void register_once(void) {
        (void) thread_atfork(NULL, NULL, fork_child);
}

/* Each stream may have ended. */
static void streams_unknown(void) {
        cuda_track_mark_tails();
        cuda_capture_for_ever();
}

/* --- calls that end contexts --- */

#define LEAVING 2U /* calls of a thread that are made at a time: handlers nest */

/* Initial-exec, because dynamic TLS is allocated on first use. Claimed by one store of the frame, so a handler that
 * comes in between leaves it alone, or has given it back. */
static _Thread_local struct {
        const void *frame; /* NULL: free */
        uint32_t by;       /* 0: not written yet, or given back */
} leaving[LEAVING] __attribute__((tls_model("initial-exec")));

uint32_t cuda_context_leaver(const void *frame) {
        cuda_context_look_for_left(frame);
        uint32_t by = cuda_queue_leaver();
        for (size_t i = 0; i < LEAVING; i++) {
                if (leaving[i].frame)
                        continue;
                leaving[i].frame = frame;
                atomic_signal_fence(memory_order_seq_cst);
                leaving[i].by = by;
                break;
        }
        return by;
}

void cuda_context_leaver_free(uint32_t by) {
        for (size_t i = 0; i < LEAVING; i++)
                if (leaving[i].by == by) {
                        leaving[i].by = 0;
                        atomic_signal_fence(memory_order_seq_cst);
                        leaving[i].frame = NULL;
                }
        cuda_queue_leaver_free(by);
}

static void was_left(uint32_t by) {
        PROTECT_ERRNO;

        cuda_track_left_all(by);
        SIGNALS_BLOCKED;
        (void) pthread_mutex_lock(&lock);
        for (CudaDevice i = 0; i < DEVICES_MAX; i++)
                primaries[i].leavers &= ~by;
        (void) pthread_mutex_unlock(&lock);
}

/* Stacks grow down: a frame at a lower or equal address has ended. */
void cuda_context_look_for_left(const void *frame) {
        for (size_t i = 0; i < LEAVING; i++) {
                uint32_t by = leaving[i].by;
                if (likely(!leaving[i].frame) || (uintptr_t) leaving[i].frame > (uintptr_t) frame ||
                                cuda_on_other_stack())
                        continue;
                if (by == 0) {
                        leaving[i].frame = NULL;
                        continue;
                }
                was_left(by);
                cuda_context_leaver_free(by);
        }
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

/* What stands for the primary context as that of queues whose green contexts have ended, and whose launches have not:
 * their events live as long as it does. Its handle need not be known, and no context of the driver's has this one. */
static CudaContext rest_of(Primary *p) {
        return (CudaContext) p;
}

static bool primary_has_ended(CudaDevice device) {
        unsigned flags;
        int active = 1;

        return CUDA_CALL(cuDevicePrimaryCtxGetState, CudaResult(*)(CudaDevice, unsigned *, int *), device, &flags,
                               &active) == CUDA_RESULT_SUCCESS &&
                        !active;
}

static bool green_is_of(const Green *g, CudaDevice device) {
        return atomic_load(&g->handle) && atomic_load(&g->device) == device && !atomic_load(&g->ended);
}

/* A caller with the lock is about to leave it, and is none of its users any more. Returns whether there are others. */
static bool primary_leave(Primary *p, CudaDevice device, uint32_t by) {
        bool is_used = p->n_users > 0;

        for (const Green *g = atomic_load(&greens); g && !is_used; g = g->next)
                is_used = green_is_of(g, device) && !g->leaves;
        p->epoch += !is_used;
        p->leavers |= by;
        cuda_queue_leave_all(rest_of(p), by, NULL); /* nobody asks for their events until primary_left() */
        return is_used;
}

static void primary_left(Primary *p, uint32_t by, bool ended) {
        if (ended)
                cuda_track_left_context(rest_of(p), by, true);
        SIGNALS_BLOCKED;
        (void) pthread_mutex_lock(&lock);
        p->leavers &= ~by;
        cuda_queue_stay_all(rest_of(p), by);
        (void) pthread_mutex_unlock(&lock);
}

/* 0: the driver does not say. */
static uint64_t id_of(CudaContext context) {
        unsigned long long id = 0;
        CudaResult r = CUDA_CALL(cuCtxGetId, CudaResult(*)(CudaContext, unsigned long long *), context, &id);

        return r == CUDA_RESULT_SUCCESS ? id : 0;
}

/* A user has got it. Returns false if another one has since `n_entered`: then `id` may be that of a former one. *ret:
 * the one that was there before, if that has ended: then `by` leaves that, before a user of the new one can have
 * queues. */
static bool primary_enter(Primary *p, CudaContext context, CudaDevice device, uint64_t n_entered, uint64_t id,
                uint32_t by, CudaContext *ret) {
        CudaContext former = NULL;
        SIGNALS_BLOCKED;

        (void) pthread_mutex_lock(&lock);
        bool is_last = atomic_load(&p->n_entered) == n_entered;
        if (is_last) {
                if (id != 0 && p->id != 0 && id != p->id) {
                        former = atomic_load(&p->context);
                        cuda_track_leave_context(former, by);
                        (void) primary_leave(p, device, by);
                        p->epoch++;
                }
                p->id = id;
                atomic_store(&p->context, context);
                p->n_users++;
                atomic_fetch_add(&p->n_entered, 1);
        }
        (void) pthread_mutex_unlock(&lock);
        *ret = former;
        return is_last;
}

void cuda_context_retained(CudaContext primary, CudaDevice device, const void *frame) {
        PROTECT_ERRNO;
        Primary *p = primary_of(device);
        CudaContext former;
        uint64_t n_entered;

        if (!p)
                return;
        (void) pthread_once(&once, register_once);
        uint32_t by = cuda_context_leaver(frame);
        do
                n_entered = atomic_load(&p->n_entered);
        while (!primary_enter(p, primary, device, n_entered, id_of(primary), by, &former));
        if (former) {
                cuda_track_left_context(former, by, true);
                primary_left(p, by, true);
        }
        cuda_context_leaver_free(by);
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

/* NULL: the driver does not say. */
static CudaContext context_of(CudaGreen green) {
        CudaContext context = NULL;

        CUDA_WITH_RELAXED_CAPTURE;
        if (CUDA_CALL(cuCtxFromGreenCtx, CudaResult(*)(CudaContext *, CudaGreen), &context, green) !=
                                        CUDA_RESULT_SUCCESS ||
                        is_primary(context))
                return NULL;
        return context;
}

void cuda_context_green(CudaGreen green, CudaDevice device) {
        PROTECT_ERRNO;

        if (!green)
                return;
        CudaContext context = context_of(green);
        (void) pthread_once(&once, register_once);
        SIGNALS_BLOCKED;
        (void) pthread_mutex_lock(&lock);
        Green *g = green_record(green);
        if (g) {
                atomic_store(&g->serial, ++newest);
                atomic_store(&g->context, context);
                atomic_store(&g->device, device);
                atomic_store(&g->ended, false);
                g->leaves = false;
                atomic_store(&g->handle, green);
        }
        if (!g || !context)
                atomic_store(&careful, true);
        (void) pthread_mutex_unlock(&lock);
}

/* Who made a green context of which there is no record is not known, and so not with what it ends. */
void cuda_context_green_stream(CudaGreen green, CudaStream stream) {
        PROTECT_ERRNO;
        const Green *g = green_find(green);
        CudaContext context = g ? atomic_load(&g->context) : NULL, of_stream = NULL;

        if (!context ||
                        CUDA_CALL(cuStreamGetCtx, CudaResult(*)(CudaStream, CudaContext *), stream, &of_stream) !=
                                        CUDA_RESULT_SUCCESS ||
                        of_stream != context)
                atomic_store(&careful, true);
}

static void green_leave(Green *g, CudaGreenEnd *ret) {
        SIGNALS_BLOCKED;

        (void) pthread_mutex_lock(&lock);
        ret->record = g;
        ret->serial = atomic_load(&g->serial);
        Primary *p = primary_of(atomic_load(&g->device));
        if (p) {
                ret->device = atomic_load(&g->device);
                g->leaves = true;
                ret->is_last = !primary_leave(p, ret->device, ret->by);
                ret->epoch = p->epoch;
        }
        (void) pthread_mutex_unlock(&lock);
}

void cuda_context_leave_green(CudaGreen green, const void *frame, CudaGreenEnd *ret) {
        PROTECT_ERRNO;
        Green *g = green ? green_find(green) : NULL;
        CudaContext context = g ? atomic_load(&g->context) : NULL;

        if (green && !context)
                atomic_store(&careful, true);
        if (atomic_load(&careful))
                context = NULL;
        *ret = (CudaGreenEnd){.context = context, .device = -1, .by = cuda_context_leaver(frame)};
        if (g)
                green_leave(g, ret);
        if (ret->is_last)
                ret->primary = primary_context(ret->device);
        if (context)
                cuda_track_leave_part(context, ret->by);
        else if (green)
                streams_unknown();
        cuda_track_leave_context(ret->primary, ret->by);
}

/* Its handle may be another one's by now, with the record. */
static void green_left(const CudaGreenEnd *e, bool destroyed) {
        SIGNALS_BLOCKED;

        (void) pthread_mutex_lock(&lock);
        for (Green *g = atomic_load(&greens); g; g = g->next)
                if (g == e->record && atomic_load(&g->serial) == e->serial) {
                        g->leaves = false;
                        if (destroyed)
                                atomic_store(&g->handle, NULL);
                }
        (void) pthread_mutex_unlock(&lock);
}

/* The driver has not waited for the work of its streams. The primary context has not ended if it has had a user all the
 * time. */
static void green_rests(const CudaGreenEnd *e, Primary *p) {
        cuda_track_left_part(e->context, e->by);
        SIGNALS_BLOCKED;
        (void) pthread_mutex_lock(&lock);
        if (p->epoch == e->epoch)
                cuda_queue_pass_all(e->context, e->by, rest_of(p), p->leavers);
        (void) pthread_mutex_unlock(&lock);
}

void cuda_context_left_green(const CudaGreenEnd *e, bool destroyed) {
        PROTECT_ERRNO;
        Primary *p = primary_of(e->device);
        bool ended = primary_has_ended(e->device), may_have_ended = ended || (e->is_last && destroyed);

        if (destroyed && p && e->context && !may_have_ended)
                green_rests(e, p);
        cuda_track_left_context(e->context, e->by, destroyed);
        cuda_track_left_context(e->primary, e->by, ended);
        if (p)
                primary_left(p, e->by, may_have_ended);
        green_left(e, destroyed);
        cuda_context_leaver_free(e->by);
}

/* --- the end of a primary context, and of its green contexts --- */

static void primary_users_leave(Primary *p, CudaPrimaryEnd *ret) {
        SIGNALS_BLOCKED;

        (void) pthread_mutex_lock(&lock);
        ret->serial = newest;
        ret->n_users = ret->resets ? p->n_users : MIN(p->n_users, 1);
        p->n_users -= ret->n_users;
        ret->is_last = !primary_leave(p, ret->device, ret->by) || ret->resets;
        void (*leave)(CudaContext, uint32_t) =
                        ret->is_last ? cuda_track_leave_context : cuda_track_leave_shared_context;
        leave(atomic_load(&p->context), ret->by);
        for (const Green *g = atomic_load(&greens); g; g = g->next)
                if (green_is_of(g, ret->device))
                        leave(atomic_load(&g->context), ret->by);
        (void) pthread_mutex_unlock(&lock);
}

void cuda_context_leave_primary(CudaDevice device, bool resets, const void *frame, CudaPrimaryEnd *ret) {
        PROTECT_ERRNO;
        Primary *p = primary_of(device);

        *ret = (CudaPrimaryEnd){.device = device, .resets = resets, .by = cuda_context_leaver(frame)};
        if (p)
                primary_users_leave(p, ret);
}

static void primary_users_stay(Primary *p, int n) {
        SIGNALS_BLOCKED;

        (void) pthread_mutex_lock(&lock);
        p->n_users += n;
        (void) pthread_mutex_unlock(&lock);
}

/* Returns false if one of them is not known well enough. */
static bool greens_left(const CudaPrimaryEnd *e, bool ended) {
        bool all_known = true;

        for (Green *g = atomic_load(&greens); g; g = g->next) {
                if (!green_is_of(g, e->device) || atomic_load(&g->serial) > e->serial)
                        continue;
                CudaContext context = atomic_load(&g->context);
                bool known = context && !atomic_load(&careful);
                cuda_track_left_context(context, e->by, ended && known);
                all_known = all_known && known;
                if (ended)
                        atomic_store(&g->ended, true);
        }
        return all_known;
}

/* None of them becomes a rest meanwhile. */
static void greens_stay(const CudaPrimaryEnd *e) {
        SIGNALS_BLOCKED;

        (void) pthread_mutex_lock(&lock);
        (void) greens_left(e, false);
        (void) pthread_mutex_unlock(&lock);
}

void cuda_context_left_primary(const CudaPrimaryEnd *e, bool done) {
        PROTECT_ERRNO;
        /* The result may be another call's error; and where it was reset, others may have it again by now. */
        bool ended = (e->resets && done) || primary_has_ended(e->device), all_known = true;

        Primary *p = primary_of(e->device);
        if (p && !ended && !done)
                primary_users_stay(p, e->n_users);
        if (ended)
                all_known = greens_left(e, true);
        else
                greens_stay(e);
        cuda_track_left_context(primary_context(e->device), e->by, ended);
        if (p)
                primary_left(p, e->by, ended || (e->is_last && done));
        cuda_context_leaver_free(e->by);
        if (!all_known)
                streams_unknown();
}
