/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The functions that examples.c needs from a runtime: queues, launches that can be told apart by their results, and one
 * launch that waits for the host
 *
 * One file for each runtime. It calls its runtime as any program does; only OclQueueCreate() and similar calls are
 * XSched's.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xsched/xsched.h"

#define LAUNCHES 20U

#ifndef CHECK
#        define CHECK(expression)                                                                                      \
                do {                                                                                                   \
                        if (!(expression)) {                                                                           \
                                fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #expression);                       \
                                exit(1);                                                                               \
                        }                                                                                              \
                } while (0)
#endif

typedef struct Stream {
        HwQueueHandle hwq;
        XQueueHandle xq;
        void *queue, *buffer; /* the runtime's */
        unsigned n;           /* launches so far */
        atomic_int launched;  /* those whose call of the runtime has returned */
} Stream;

/* Whether what is launched by the runtime's own functions passes the gate of the XQueue: a layer sees its queues. */
extern const bool runtime_has_gates;

void runtime_open(void);
void runtime_close(void);

/* Makes the queue, and its HwQueue. */
void runtime_stream(Stream *s);
void runtime_stream_end(Stream *s);

/* Launches number s->n. With `occupy`, it does not begin before runtime_release(). */
void runtime_launch(Stream *s, bool occupy);
void runtime_release(void);

void runtime_finish(const Stream *s);

/* Checks that s->n launches ran, each once and in their order, and nothing else. */
void runtime_expect(const Stream *s);
