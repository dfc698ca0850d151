/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A neighbour: keeps the device busy until its standard input ends, and checks what it computed
 *
 * Says "ready" once its first kernel has run, and "waited" once a launch has waited at the gate.
 */

#include <poll.h>
#include <unistd.h>

#include "cl-test.h"

#define ROUNDS 3000
#define BATCH  8

static bool input_ended(void) {
        struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
        return poll(&p, 1, 0) != 0;
}

static void say(const char *word) {
        (void) puts(word);
        (void) fflush(stdout);
}

int main(void) {
        cl_int expected = 0;
        bool waited = false;

        test_open();
        cl_command_queue q = queue_make(0);
        cl_mem a = buffer_make();
        for (bool first = true; !input_ended(); first = false) {
                for (int i = 0; i < BATCH; i++) {
                        CHECK_CL(launch_busy(q, a, ROUNDS, NULL));
                        for (cl_int k = 0; k < ROUNDS; k++)
                                expected = step(expected, k);
                }
                buffer_expect(q, a, expected);
                if (first)
                        say("ready");
                if (!waited && (waited = test_has_waited()))
                        say("waited");
        }
        CHECK_CL(clReleaseMemObject(a));
        CHECK_CL(clReleaseCommandQueue(q));
        test_close();
        return 0;
}
