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
static _Thread_local Stream *own_stream;
_Atomic unsigned long fake_n_launches, fake_n_captured;

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

static void *stream_run(void *userdata) {
        Stream *s = userdata;

        pthread_mutex_lock(&fake_lock);
        for (;;) {
                while (!s->first && !s->ending)
                        pthread_cond_wait(&fake_changed, &fake_lock);
                if (!s->first)
                        break;
                Op *op = s->first;
                s->first = op->next;
                if (!s->first)
                        s->last = &s->first;
                do_op(op, s->channel);
                free(op);
                s->done++;
                pthread_cond_broadcast(&fake_changed);
        }
        pthread_mutex_unlock(&fake_lock);
        return NULL;
}

void fake_stream_start(Stream *s, Context *c) {
        *s = (Stream){.context = c, .channel = fake_channels_next(&c->channels)};
        s->last = &s->first;
        pthread_create(&s->thread, NULL, stream_run, s);
}

Stream *fake_stream_of(FakeStream handle, bool per_thread) {
        uintptr_t h = (uintptr_t) handle;

        if (h > 2)
                return handle;
        if (!fake_current)
                return NULL;
        if (h == 2 || (h == 0 && per_thread)) {
                if (!own_stream) {
                        own_stream = calloc(1, sizeof(*own_stream));
                        fake_stream_start(own_stream, fake_current);
                        own_stream->blocking = true;
                }
                return own_stream;
        }
        pthread_mutex_lock(&fake_lock);
        if (!fake_current->has_legacy)
                fake_stream_start(&fake_current->legacy, fake_current);
        fake_current->has_legacy = true;
        pthread_mutex_unlock(&fake_lock);
        return &fake_current->legacy;
}

int fake_submit(Stream *s, Op what) {
        if (!s)
                return INVALID_CONTEXT;

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
                *s->last = op;
                s->last = &op->next;
                s->submitted++;
        }
        pthread_cond_broadcast(&fake_changed);
        pthread_mutex_unlock(&fake_lock);
        return SUCCESS;
}

void fake_stream_wait(Stream *s) {
        pthread_mutex_lock(&fake_lock);
        uint64_t until = s->submitted;
        while (s->done < until)
                pthread_cond_wait(&fake_changed, &fake_lock);
        pthread_mutex_unlock(&fake_lock);
}

void fake_stream_end(Stream *s) {
        pthread_mutex_lock(&fake_lock);
        s->ending = true;
        pthread_cond_broadcast(&fake_changed);
        pthread_mutex_unlock(&fake_lock);
        pthread_join(s->thread, NULL);
}
