/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * examples.c with OpenCL
 */

#include "../opencl/cl-test.h"

#include "examples.h"

#include "xsched/opencl/hal.h"

const bool runtime_has_gates = true;

static cl_event host; /* of the launch that waits */

void runtime_open(void) {
        test_open();
}

void runtime_close(void) {
        test_close();
}

void runtime_stream(Stream *s) {
        s->queue = queue_make(0);
        s->buffer = buffer_make();
        CHECK(OclQueueCreate(&s->hwq, s->queue) == kXSchedSuccess);
}

void runtime_stream_end(Stream *s) {
        CHECK_CL(clReleaseMemObject(s->buffer));
        CHECK_CL(clReleaseCommandQueue(s->queue));
}

void runtime_launch(Stream *s, bool occupy) {
        cl_int r;

        if (occupy) {
                host = clCreateUserEvent(t.context, &r);
                CHECK_CL(r);
        }
        CHECK_CL(launch_step(s->queue, s->buffer, (cl_int) s->n, occupy ? 1 : 0, occupy ? &host : NULL, NULL));
        CHECK_CL(clFlush(s->queue));
}

void runtime_release(void) {
        CHECK_CL(clSetUserEventStatus(host, CL_COMPLETE));
        CHECK_CL(clReleaseEvent(host));
}

void runtime_finish(const Stream *s) {
        CHECK_CL(clFinish(s->queue));
}

void runtime_expect(const Stream *s) {
        cl_int expected = 0;

        for (unsigned i = 0; i < s->n; i++)
                expected = step(expected, (cl_int) i);
        buffer_expect(s->queue, s->buffer, expected);
}
