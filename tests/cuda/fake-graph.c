/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Captures and graphs of the stand-in
 */

#include <stdlib.h>

#include "fake-device.h"

#define RELAXED          2
#define NODE_CONDITIONAL 13

/* CUgraphNodeParams, of a conditional node */
typedef struct FakeNode {
        int type, reserved[3];
        uint64_t condition;
        int kind;
        unsigned size;
        Graph **bodies;
} FakeNode;

static _Thread_local int capture_mode; /* 0: global, 2: relaxed */
static int n_global_captures;

bool fake_may_ask(void) {
        return capture_mode == RELAXED || n_global_captures == 0;
}

API int cuThreadExchangeStreamCaptureMode(int *mode) {
        ENTER;
        int was = capture_mode;
        capture_mode = *mode;
        *mode = was;
        return SUCCESS;
}

/* The legacy default stream would take part in captures on streams that it waits for. */
API int cuStreamIsCapturing(FakeStream handle, int *ret) {
        ENTER;
        Stream *s = fake_stream_of(handle, false);
        USE(s);
        pthread_mutex_lock(&fake_lock);
        bool implicit = s == &s->context->legacy && s->context->n_blocking_captures > 0;
        *ret = s->capture && !s->cig;
        pthread_mutex_unlock(&fake_lock);
        return implicit ? CAPTURE_IMPLICIT : SUCCESS;
}

/* In global mode, or in relaxed mode. The legacy default stream cannot be captured. */
static int begin(Stream *s, Graph *g, int mode) {
        USE(s);
        if (s == &s->context->legacy)
                return CAPTURE_UNSUPPORTED;
        pthread_mutex_lock(&fake_lock);
        s->capture = g;
        s->spoiled = false;
        s->capture_mode = mode;
        n_global_captures += mode != RELAXED;
        s->context->n_blocking_captures += s->blocking;
        pthread_mutex_unlock(&fake_lock);
        return SUCCESS;
}

static int end(Stream *s, Graph **ret) {
        USE(s);
        pthread_mutex_lock(&fake_lock);
        *ret = s->spoiled ? NULL : s->capture;
        int r = s->spoiled ? CAPTURE_INVALIDATED : SUCCESS;
        s->capture = NULL;
        s->spoiled = s->cig = false;
        n_global_captures -= s->capture_mode != RELAXED;
        s->context->n_blocking_captures -= s->blocking;
        pthread_mutex_unlock(&fake_lock);
        return r;
}

void fake_capture_drop(Stream *s) {
        Graph *g;

        if (s->capture)
                (void) end(s, &g);
}

static Graph *graph_new(void) {
        Graph *g = calloc(1, sizeof(*g));

        g->last = &g->first;
        return g;
}

API int cuStreamBeginCapture_v2(FakeStream handle, int mode) {
        ENTER;
        return begin(fake_stream_of(handle, false), graph_new(), mode);
}

API int cuStreamBeginCapture_v2_ptsz(FakeStream handle, int mode) {
        ENTER;
        return begin(fake_stream_of(handle, true), graph_new(), mode);
}

/* A function that the layer does not know. */
API int cuStreamBeginCaptureOfTomorrow(FakeStream handle, const void *parameters, int mode) {
        ENTER;
        return begin(fake_stream_of(handle, false), graph_new(), mode);
}

/* The graph takes over what is captured, and nothing is compared with what it had. */
API int cuStreamBeginRecaptureToGraph(FakeStream handle, int mode, Graph *g, int (*callback)(void), void *userdata) {
        ENTER;
        g->first = NULL;
        g->last = &g->first;
        return begin(fake_stream_of(handle, false), g, mode);
}

/* What is captured for a graphics API is done when that captures no more. */
API int cuStreamBeginCaptureToCig(FakeStream handle, void *parameters) {
        ENTER;
        Stream *s = fake_stream_of(handle, false);
        int r = begin(s, graph_new(), RELAXED);
        if (r == SUCCESS)
                s->cig = true;
        return r;
}

static int submit_all(Stream *s, const Graph *g);

API int cuStreamEndCaptureToCig(FakeStream handle) {
        ENTER;
        Stream *s = fake_stream_of(handle, false);
        Graph *g;
        int r = end(s, &g);
        return r == SUCCESS ? submit_all(s, g) : r;
}

API int cuStreamBeginCaptureToGraph(
                Stream *s, Graph *g, const void *dependencies, const void *edges, size_t n, int mode) {
        ENTER;
        return begin(s, g, mode);
}

API int cuStreamEndCapture(FakeStream handle, Graph **ret) {
        ENTER;
        return end(fake_stream_of(handle, false), ret);
}

API int cuStreamEndCapture_ptsz(FakeStream handle, Graph **ret) {
        ENTER;
        return end(fake_stream_of(handle, true), ret);
}

API int cuGraphInstantiateWithFlags(Graph **ret, Graph *g, uint64_t flags) {
        ENTER;
        *ret = g;
        return SUCCESS;
}

API int cuGraphCreate(Graph **ret, unsigned flags) {
        ENTER;
        *ret = graph_new();
        return SUCCESS;
}

/* A condition has the value that it was made with: no kernel here sets another. */
API int cuGraphConditionalHandleCreate(uint64_t *ret, Graph *g, Context *c, unsigned value, unsigned flags) {
        ENTER;
        *ret = value;
        return SUCCESS;
}

API int cuGraphAddNode(void **ret, Graph *g, void *const *dependencies, size_t n, FakeNode *node) {
        ENTER;
        if (node->type != NODE_CONDITIONAL)
                return INVALID_VALUE;
        Op *op = calloc(1, sizeof(*op));
        *op = (Op){.kind = OP_BODY, .body = graph_new(), .k = (int) node->condition};
        *g->last = op;
        g->last = &op->next;
        *ret = op;
        node->bodies = &op->body;
        return SUCCESS;
}

static int submit_all(Stream *s, const Graph *g) {
        for (const Op *op = g->first; op; op = op->next) {
                int r = op->kind != OP_BODY ? fake_submit(s, *op) : op->k ? submit_all(s, op->body) : SUCCESS;
                if (r != SUCCESS)
                        return r;
                if (op->kind == OP_KERNEL)
                        atomic_fetch_sub(&fake_n_launches, 1);
        }
        return SUCCESS;
}

API int cuGraphLaunch(Graph *g, FakeStream handle) {
        ENTER;
        int r = submit_all(fake_stream_of(handle, false), g);

        if (r == SUCCESS)
                atomic_fetch_add(&fake_n_launches, 1);
        return r;
}
