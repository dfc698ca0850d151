/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The thread of fake-rocr.c's that calls programs back
 */

#include <pthread.h>
#include <time.h>

#include "common/macro.h"
#include "fake-rocr.h"

#define LOOK_NS 20000

static pthread_mutex_t calls_lock = PTHREAD_MUTEX_INITIALIZER;

typedef struct Call {
        HsaSignal signal;
        int condition;
        int64_t value;
        HsaHandler *handler;
        HsaFunction *function;
        void *arg;
        struct Call *next;
} Call;

static Call *calls;
static bool thread_runs;

static bool call_is_due(const Call *c) {
        if (c->function)
                return true;
        int64_t v = fake_signal_load(c->signal);
        switch (c->condition) {
        case 0:
                return v == c->value;
        case 1:
                return v != c->value;
        case 2:
                return v < c->value;
        default:
                return v >= c->value;
        }
}

/* Returns true: to be called again. */
static bool call_make(const Call *c) {
        if (!c->function)
                return c->handler(fake_signal_load(c->signal), c->arg);
        c->function(c->arg);
        return false;
}

static Call *call_take_due(void) {
        (void) pthread_mutex_lock(&calls_lock);
        Call **link = &calls;
        while (*link && !call_is_due(*link))
                link = &(*link)->next;
        Call *c = *link;
        if (c)
                *link = c->next;
        (void) pthread_mutex_unlock(&calls_lock);
        return c;
}

static void call_put(Call *c) {
        (void) pthread_mutex_lock(&calls_lock);
        c->next = calls;
        calls = c;
        (void) pthread_mutex_unlock(&calls_lock);
}

static void *thread_main(void *unused) {
        for (Call *c;; (void) nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL))
                while ((c = call_take_due()))
                        if (call_make(c))
                                call_put(c);
                        else
                                free(c);
        return NULL;
}

static int call_add(const Call *call) {
        Call *c = malloc(sizeof(*c));
        pthread_t thread;
        if (!c)
                return HSA_ERROR;

        *c = *call;
        call_put(c);
        (void) pthread_mutex_lock(&calls_lock);
        bool start = !thread_runs;
        thread_runs = true;
        (void) pthread_mutex_unlock(&calls_lock);
        return start && pthread_create(&thread, NULL, thread_main, NULL) != 0 ? HSA_ERROR : HSA_SUCCESS;
}

int fake_async_handler(HsaSignal signal, int condition, int64_t value, HsaHandler *handler, void *arg) {
        return call_add(&(Call){
                        .signal = signal, .condition = condition, .value = value, .handler = handler, .arg = arg});
}

int fake_async_function(HsaFunction *function, void *arg) {
        return call_add(&(Call){.function = function, .arg = arg});
}
