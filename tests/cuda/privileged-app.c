/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A process with channels of NVIDIA's driver that registers with the service, but does not stop its own launches
 *
 * So only others can hold it. Takes a device's number, which is not used, and the id of the device that it registers
 * with. Says "ready" when it is registered, and then obeys standard input, a line for a line:
 *
 *   count     how often its first and last channel were seen at work
 *   more      makes another group of channels: "made"
 *   finish    "clean": nothing is left to be done
 *
 * The end of the input ends it.
 */

#include <poll.h>
#include <stdio.h>

#include "common/macro.h"
#include "rm-user.h"
#include "tests/lib/deadline.h"
#include "xsched/xsched.h"

#define CHANNELS 8U
#define GROUPS   4U

/* Of fake-remote.c, which is preloaded: linking to it would find its folder's libxsched, which is another one. */
__attribute__((weak)) int fake_remote_runs(uint32_t client, uint32_t channel);

static XschedQueue *queue;

/* Uncounted launches stay outstanding: the queue always has work. */
static void drain(XschedQueue *q, void *userdata) {
}

static bool is_registered(void) {
        XschedCounters c = {.size = sizeof(c)};

        (void) xsched_queue_begin_nowait(queue);
        (void) xsched_get_counters(&c);
        return c.state == XSCHED_STATE_ATTACHED && c.queues == 1;
}

int main(int argc, char *argv[]) {
        struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
        uint32_t channels[CHANNELS], first = 0, last = 0;
        unsigned count = 0;
        char line[64];

        User user = user_new();
        for (unsigned i = 0; i < GROUPS; i++) {
                (void) user_group(&user, i % GPUS_MAX, channels, CHANNELS);
                first = first ?: channels[0];
                last = channels[CHANNELS - 1];
        }
        const XschedQueueInfo info = {
                        .size = sizeof(info), .device = argv[argc - 1], .backend = "test", .drain = drain};
        if (xsched_queue_new(&info, &queue) < 0 || !poll_until(is_registered()))
                return EXIT_FAILURE;
        (void) setvbuf(stdin, NULL, _IONBF, 0);
        (void) setvbuf(stdout, NULL, _IOLBF, 0);
        puts("ready");
        for (;;) {
                (void) xsched_queue_begin_nowait(queue);
                count += fake_remote_runs(user.client, first) > 0 || fake_remote_runs(user.client, last) > 0;
                if (poll(&p, 1, 1) <= 0)
                        continue;
                if (!fgets(line, sizeof(line), stdin))
                        return EXIT_SUCCESS;
                if (startswith(line, "count"))
                        printf("%u\n", count);
                else if (startswith(line, "more")) {
                        (void) user_group(&user, 0, channels, CHANNELS);
                        last = channels[CHANNELS - 1];
                        puts("made");
                } else
                        puts("clean");
        }
}
