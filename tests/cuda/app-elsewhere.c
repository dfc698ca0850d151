/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Launches by the handle of a stream, while another context is current than the stream's, or none: see app.c
 */

#include "app.h"

#define LAUNCHES 200 /* so many that some have a mark, and some are samples */

static void launch_elsewhere(const char *where, struct Context *current) {
        FakeStream s = stream();
        uint64_t p = memory();
        struct Graph *g, *run;

        CHECK(cuStreamBeginCapture_v2(s, 0) == 0);
        CHECK(launch_on(s, p, 1, 0) == 0);
        CHECK(cuStreamEndCapture(s, &g) == 0);
        CHECK(cuGraphInstantiateWithFlags(&run, g, 0) == 0);
        CHECK(cuCtxSetCurrent(current) == 0);
        for (int k = 0; k < LAUNCHES; k++) {
                CHECK(launch_on(s, p, k, 0) == 0);
                if (k % 10 == 0)
                        CHECK(cu.graph(run, s) == 0);
        }
        CHECK(cu.wait(s) == 0);
        if (current)
                CHECK(cuCtxDestroy_v2(current) == 0);
        /* What the layer has of that context has ended with it. */
        CHECK(cuCtxSetCurrent(context) == 0);
        for (int k = 0; k < LAUNCHES; k++)
                CHECK(launch_on(s, p, k, 0) == 0);
        printf("%s %08x\n", where, sum(p, s));
        CHECK(cuStreamDestroy_v2(s) == 0);
}

void case_elsewhere(void) {
        unsigned long before = fake_cuda_dead_calls();
        struct Context *other, *current;

        CHECK(cuCtxCreate_v2(&other, 0, 0) == 0);
        CHECK(cuCtxSetCurrent(context) == 0);
        launch_elsewhere("in another context", other);
        launch_elsewhere("in no context", NULL);
        CHECK(cuCtxGetCurrent(&current) == 0 && current == context);
        CHECK(fake_cuda_dead_calls() == before);
}
