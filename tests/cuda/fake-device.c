/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The device behind fake-cuda.c
 */

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fake-device.h"

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t fake_changed = PTHREAD_COND_INITIALIZER;
_Thread_local Context *fake_current;
_Thread_local bool fake_in_host_function;
static _Thread_local char this_thread;
_Atomic unsigned long fake_n_launches, fake_n_captured, fake_n_dead_calls;

static uint64_t now(void) {
        struct timespec ts;
        clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t) ts.tv_sec * 1000000000 + (uint64_t) ts.tv_nsec;
}

static void do_kernel(const Op *op, uint32_t channel) {
        fake_channels_run(channel, op->ns);
        if (op->kernel) {
                op->kernel->run(op->params);
                return;
        }
        for (unsigned i = 0; i < op->n; i++)
                op->a[i] = (int) ((unsigned) op->a[i] * 3 + (unsigned) op->k);
}

/* Does one operation. Called under the fake_lock, which is released while the operation works. */
static void do_op(Op *op, uint32_t channel) {
        if (op->kind == OP_RECORD) {
                op->event->reached = op->generation;
                op->event->at_ns = now();
                if (op->event->doomed && op->event->reached == op->event->recorded)
                        free(op->event);
                return;
        }
        while (op->kind == OP_WAIT && op->event->reached < op->generation)
                pthread_cond_wait(&fake_changed, &fake_lock);
        pthread_mutex_unlock(&fake_lock);
        if (op->kind == OP_KERNEL)
                do_kernel(op, channel);
        else if (op->kind == OP_COPY)
                memcpy(op->to, op->from, op->size);
        else if (op->kind == OP_SET)
                memset(op->to, op->k, op->size);
        else if (op->kind == OP_HOST) {
                fake_in_host_function = true;
                op->host(op->userdata);
                fake_in_host_function = false;
        }
        pthread_mutex_lock(&fake_lock);
}

static void *work_run(void *userdata) {
        Work *w = userdata;

        pthread_mutex_lock(&fake_lock);
        for (;;) {
                while (!w->first && !w->ending)
                        pthread_cond_wait(&fake_changed, &fake_lock);
                if (!w->first)
                        break;
                Op *op = w->first;
                w->first = op->next;
                if (!w->first)
                        w->last = &w->first;
                do_op(op, w->channel);
                free(op);
                w->done++;
                pthread_cond_broadcast(&fake_changed);
        }
        if (w->rest_of) {
                w->rest_of->n_rests--;
                pthread_cond_broadcast(&fake_changed);
                free(w);
        }
        pthread_mutex_unlock(&fake_lock);
        return NULL;
}

static void stream_start(Stream *s, Context *c) {
        Work *w = calloc(1, sizeof(*w));

        w->channel = fake_channels_next(&c->channels);
        w->last = &w->first;
        *s = (Stream){.context = c, .work = w};
        pthread_create(&w->thread, NULL, work_run, w);
}

static void stream_start_listed(Stream *s, Context *c) {
        stream_start(s, c);
        s->next = c->streams;
        c->streams = s;
}

Stream *fake_stream_new(Context *c) {
        pthread_mutex_lock(&fake_lock);
        Stream *s = c->is_green ? fake_green_stream_used() : NULL;
        if (!s)
                s = calloc(1, sizeof(*s));
        stream_start_listed(s, c);
        pthread_mutex_unlock(&fake_lock);
        return s;
}

/* With the lock. */
static Stream *own_stream(Context *c) {
        for (Stream *s = c->streams; s; s = s->next)
                if (s->owner == &this_thread)
                        return s;
        Stream *s = calloc(1, sizeof(*s));
        stream_start_listed(s, c);
        s->blocking = true;
        s->owner = &this_thread;
        return s;
}

static Stream *legacy_stream(Context *c) {
        if (!c->has_legacy)
                stream_start(&c->legacy, c);
        c->has_legacy = true;
        return &c->legacy;
}

Stream *fake_stream_of(FakeStream handle, bool per_thread) {
        uintptr_t h = (uintptr_t) handle;
        Context *c = fake_current;

        if (h > 2)
                return handle;
        if (!c)
                return NULL;
        if (c->destroyed)
                return &c->legacy;
        pthread_mutex_lock(&fake_lock);
        Stream *s = h == 2 || (h == 0 && per_thread) ? own_stream(c) : legacy_stream(c);
        pthread_mutex_unlock(&fake_lock);
        return s;
}

int fake_submit(Stream *s, Op what) {
        USE(s);
        pthread_mutex_lock(&fake_lock);
        if (s->spoiled) {
                pthread_mutex_unlock(&fake_lock);
                return CAPTURE_INVALIDATED;
        }
        Op *op = malloc(sizeof(*op));
        *op = what;
        op->next = NULL;
        if (op->kind == OP_RECORD) {
                op->event->captured = s->capture != NULL;
                if (!s->capture)
                        op->generation = ++op->event->recorded;
        } else if (op->kind == OP_WAIT)
                op->generation = op->event->recorded;
        if (op->kind == OP_KERNEL)
                atomic_fetch_add(s->capture ? &fake_n_captured : &fake_n_launches, 1);
        if (s->capture) {
                if (op->kind == OP_RECORD || op->kind == OP_WAIT) {
                        free(op);
                        pthread_mutex_unlock(&fake_lock);
                        return SUCCESS;
                }
                *s->capture->last = op;
                s->capture->last = &op->next;
        } else {
                *s->work->last = op;
                s->work->last = &op->next;
                s->work->submitted++;
        }
        pthread_cond_broadcast(&fake_changed);
        pthread_mutex_unlock(&fake_lock);
        return SUCCESS;
}

void fake_stream_wait(Stream *s) {
        pthread_mutex_lock(&fake_lock);
        uint64_t until = s->work->submitted;
        while (s->work->done < until)
                pthread_cond_wait(&fake_changed, &fake_lock);
        pthread_mutex_unlock(&fake_lock);
}

void fake_stream_end(Stream *s) {
        pthread_mutex_lock(&fake_lock);
        s->work->ending = true;
        pthread_cond_broadcast(&fake_changed);
        pthread_mutex_unlock(&fake_lock);
        pthread_join(s->work->thread, NULL);
        free(s->work);
}

static void stream_leave(Stream *s, Context *primary) {
        pthread_mutex_lock(&fake_lock);
        s->work->ending = true;
        s->work->rest_of = primary;
        primary->n_rests++;
        pthread_detach(s->work->thread);
        pthread_cond_broadcast(&fake_changed);
        pthread_mutex_unlock(&fake_lock);
}

static void stream_end_in(Stream *s, Context *c) {
        fake_capture_drop(s);
        if (c->is_green)
                stream_leave(s, fake_primary(c->device));
        else
                fake_stream_end(s);
}

void fake_streams_end(Context *c) {
        if (c->has_legacy)
                stream_end_in(&c->legacy, c);
        c->has_legacy = false;
        for (Stream *s = c->streams, *next; s; s = next) {
                next = s->next;
                stream_end_in(s, c);
                if (c->is_green) {
                        fake_green_stream_ended(s);
                        continue;
                }
                memset(s, 0xEE, sizeof(*s));
                free(s);
        }
        c->streams = NULL;
}

void fake_context_end(Context *c) {
        fake_streams_end(c);
        pthread_mutex_lock(&fake_lock);
        while (c->n_rests > 0)
                pthread_cond_wait(&fake_changed, &fake_lock);
        fake_events_end(c);
        pthread_mutex_unlock(&fake_lock);
}
