/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The device behind fake-cuda.c: streams that do what was submitted, in order
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "fake-channels.h"
#include "fake-cuda.h"
#include "fake-kernels.h"

enum {
        SUCCESS = 0,
        INVALID_VALUE = 1,
        OUT_OF_MEMORY = 2,
        NOT_INITIALIZED = 3,
        INVALID_DEVICE = 101,
        INVALID_CONTEXT = 201,
        INVALID_HANDLE = 400,
        NOT_FOUND = 500,
        NOT_READY = 600,
        CONTEXT_IS_DESTROYED = 709,
        NOT_PERMITTED = 800,
        NOT_SUPPORTED = 801,
        CAPTURE_UNSUPPORTED = 900,
        CAPTURE_INVALIDATED = 901,
        CAPTURE_IMPLICIT = 906,
};

typedef enum OpKind {
        OP_KERNEL,
        OP_RECORD,
        OP_WAIT,
        OP_COPY,
        OP_SET,
        OP_HOST,
        OP_BODY, /* in a graph only: the body, another graph, which runs when its condition is not 0 */
} OpKind;

typedef struct Event Event;

typedef struct Op {
        struct Op *next;
        OpKind kind;
        int *a;
        int k;
        unsigned n;
        uint64_t ns;
        const FakeKernel *kernel; /* NULL: it is the one of a, k and n */
        uint64_t params[FAKE_PARAMS];
        Event *event;
        uint64_t generation;
        void *to;
        const void *from;
        size_t size;
        void (*host)(void *);
        void *userdata;
        struct Graph *body;
} Op;

struct Event {
        uint64_t recorded, reached;
        uint64_t at_ns;
        bool timed, captured, doomed;
        struct Context *context; /* of a green one, the primary; NULL: it has ended */
        struct Event *next;
};

typedef struct Graph {
        Op *first, **last;
} Graph;

/* What a stream does. In a green context it goes on when that is destroyed. */
typedef struct Work {
        pthread_t thread;
        uint32_t channel;
        Op *first, **last;
        uint64_t submitted, done;
        bool ending;
        struct Context *rest_of; /* a primary context that waits for it, and nobody else; NULL: the stream is there */
} Work;

typedef struct Stream {
        struct Context *context;
        Work *work;
        Graph *capture;
        int capture_mode;
        bool spoiled;
        bool cig;          /* it captures into a graphics API, and does not say so */
        bool blocking;     /* the legacy default stream waits for it */
        const void *owner; /* the thread whose per-thread default stream it is; NULL: of any other */
        bool destroyed;    /* with its green context */
        struct Stream *next;
} Stream;

typedef struct Context {
        int device;
        Stream legacy;
        bool has_legacy;
        int n_users; /* of a primary one */
        unsigned long long id;
        int n_rests; /* of green ones that are destroyed: streams with work */
        Stream *streams;
        int n_blocking_captures;
        FakeChannels channels;
        bool is_green, destroyed;
        struct Context *next_green;
} Context;

extern pthread_mutex_t fake_lock; /* of all that is in the structures above */
extern pthread_cond_t fake_changed;
extern pthread_mutex_t fake_users_lock; /* taken before: of green contexts and of who uses primary ones */
extern _Thread_local Context *fake_current;
extern _Thread_local bool fake_in_host_function;
extern _Atomic unsigned long fake_n_launches, fake_n_captured, fake_n_dead_calls;

Context *fake_primary(int device);
Context *fake_primary_retain(int device);
int fake_primary_release(int device);

Stream *fake_stream_new(Context *c);
void fake_stream_end(Stream *s); /* returns when the stream has done all its work */
void fake_stream_wait(Stream *s);

/* All streams of a context, with their captures. Those of green contexts stay, for calls that come too late. */
void fake_streams_end(Context *c);
void fake_capture_drop(Stream *s);

/* The end of a context that is no green one: its work is done, and its events are gone. A primary one may come back. */
void fake_context_end(Context *c);
void fake_events_end(const Context *c);

/* fake-green.c: the stream of an ended green context is not used any more; NULL: there is none. */
Stream *fake_green_stream_used(void);
void fake_green_stream_ended(Stream *s);
void fake_greens_end(int device);
bool fake_green_says_primary(const Context *c);
bool fake_green_keeps(int device);

/* NULL: there is no context. */
Stream *fake_stream_of(FakeStream handle, bool per_thread);

/* A result of the driver's. */
int fake_submit(Stream *s, Op what);

/* Whether this thread may ask about work now: no other thread captures in global mode, or this one is in relaxed mode.
 * With the lock. */
bool fake_may_ask(void);

/* At the begin of each function that programs call. Returns whether it may be called: not in a child after fork(). */
bool fake_enter(void);

#define API __attribute__((visibility("default")))
#define ENTER                                                                                                          \
        do                                                                                                             \
                if (!fake_enter())                                                                                     \
                        return NOT_INITIALIZED;                                                                        \
        while (false)

/* A call that concerns a stream. */
#define USE(s)                                                                                                         \
        do {                                                                                                           \
                if (!(s))                                                                                              \
                        return INVALID_CONTEXT;                                                                        \
                if ((s)->destroyed) {                                                                                  \
                        atomic_fetch_add(&fake_n_dead_calls, 1);                                                       \
                        return CONTEXT_IS_DESTROYED;                                                                   \
                }                                                                                                      \
        } while (false)
