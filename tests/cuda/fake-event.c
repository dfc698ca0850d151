/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Events of the stand-in: see fake-cuda.c
 */

#include <stdlib.h>

#include "fake-device.h"

static atomic_ulong n_events;
static Event *events; /* of contexts that have not ended */
static atomic_bool refuses_events;

API void fake_cuda_refuse_events(bool refuse) {
        refuses_events = refuse;
}

/* Events of a green context go on without it, up to the end of its primary one. */
API int cuEventCreate(Event **ret, unsigned flags) {
        ENTER;
        Context *c = fake_current;
        if (!c)
                return INVALID_CONTEXT;
        if (c->destroyed)
                return CONTEXT_IS_DESTROYED;
        if (refuses_events)
                return OUT_OF_MEMORY;
        *ret = calloc(1, sizeof(Event));
        (*ret)->timed = !(flags & 2);
        (*ret)->context = c->is_green ? fake_primary(c->device) : c;
        atomic_fetch_add(&n_events, 1);
        pthread_mutex_lock(&fake_lock);
        (*ret)->next = events;
        events = *ret;
        pthread_mutex_unlock(&fake_lock);
        return SUCCESS;
}

/* With the lock. */
static Event **event_place(const Event *e) {
        Event **p = &events;

        while (*p && *p != e)
                p = &(*p)->next;
        return p;
}

void fake_events_end(const Context *c) {
        for (Event **p = &events, *e; (e = *p);) {
                if (e->context != c) {
                        p = &e->next;
                        continue;
                }
                *p = e->next;
                e->context = NULL;
                atomic_fetch_sub(&n_events, 1);
        }
}

/* With the lock. */
static bool event_has_ended(const Event *e) {
        if (e->context)
                return false;
        atomic_fetch_add(&fake_n_dead_calls, 1);
        return true;
}

/* The stream may still be going to record it. */
API int cuEventDestroy_v2(Event *e) {
        ENTER;
        pthread_mutex_lock(&fake_lock);
        bool gone = event_has_ended(e);
        if (!gone) {
                *event_place(e) = e->next;
                atomic_fetch_sub(&n_events, 1);
                e->doomed = e->reached < e->recorded;
        }
        if (!e->doomed)
                free(e);
        pthread_mutex_unlock(&fake_lock);
        return gone ? CONTEXT_IS_DESTROYED : SUCCESS;
}

static _Atomic(void (*)(bool)) on_event;

API void fake_cuda_on_event(void (*f)(bool record)) {
        on_event = f;
}

static void tell_event(bool record) {
        void (*f)(bool) = on_event;

        if (f)
                f(record);
}

API int cuEventRecord(Event *e, FakeStream handle) {
        ENTER;
        tell_event(true);
        pthread_mutex_lock(&fake_lock);
        bool gone = event_has_ended(e);
        pthread_mutex_unlock(&fake_lock);
        if (gone)
                return CONTEXT_IS_DESTROYED;
        Stream *s = fake_stream_of(handle, false);
        USE(s);
        if (e->context != (s->context->is_green ? fake_primary(s->context->device) : s->context)) {
                atomic_fetch_add(&fake_n_dead_calls, 1);
                return INVALID_HANDLE;
        }
        return fake_submit(s, (Op){.kind = OP_RECORD, .event = e});
}

API int cuEventQuery(Event *e) {
        ENTER;
        tell_event(false);
        if (fake_in_host_function)
                return NOT_PERMITTED;
        pthread_mutex_lock(&fake_lock);
        int r = event_has_ended(e)                       ? CONTEXT_IS_DESTROYED
                        : e->captured || !fake_may_ask() ? CAPTURE_UNSUPPORTED
                        : e->reached == e->recorded      ? SUCCESS
                                                         : NOT_READY;
        pthread_mutex_unlock(&fake_lock);
        return r;
}

API int cuEventSynchronize(Event *e) {
        ENTER;
        if (fake_in_host_function)
                return NOT_PERMITTED;
        pthread_mutex_lock(&fake_lock);
        uint64_t until = e->recorded;
        while (e->reached < until)
                pthread_cond_wait(&fake_changed, &fake_lock);
        pthread_mutex_unlock(&fake_lock);
        return SUCCESS;
}

API int cuEventElapsedTime(float *ret, Event *from, Event *to) {
        ENTER;
        if (!from->timed || !to->timed)
                return INVALID_HANDLE;
        pthread_mutex_lock(&fake_lock);
        bool ready = !event_has_ended(from) && !event_has_ended(to) && from->reached == from->recorded &&
                        to->reached == to->recorded;
        const char *each = getenv("FAKE_CUDA_EACH_US"); /* how long a launch takes, as the time stamps say */
        *ret = each ? strtof(each, NULL) / 1000 : (float) (to->at_ns - from->at_ns) / 1e6F;
        pthread_mutex_unlock(&fake_lock);
        return ready ? SUCCESS : NOT_READY;
}

API unsigned long fake_cuda_events(void) {
        return n_events;
}
