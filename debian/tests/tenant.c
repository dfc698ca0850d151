/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A program of libxsched's: one queue, launches until its input ends, and their number
 */

#include <poll.h>
#include <stdio.h>
#include <unistd.h>
#include <xsched/xsched.h>

static void drain(XschedQueue *q, void *userdata) {
        xsched_queue_drained(q);
}

static int is_attached(void) {
        XschedCounters c = {.size = sizeof(c)};

        return xsched_get_counters(&c) >= 0 && c.state == XSCHED_STATE_ATTACHED && c.queues == 1;
}

static int input_ended(int timeout) {
        struct pollfd fd = {.fd = STDIN_FILENO, .events = POLLIN};
        char c;

        return poll(&fd, 1, timeout) > 0 && read(STDIN_FILENO, &c, 1) <= 0;
}

int main(void) {
        XschedQueueInfo info = {
                        .size = sizeof(info),
                        .device = "test:device",
                        .backend = "test",
                        .drain = drain,
        };
        unsigned long n = 0;
        XschedQueue *q;

        if (xsched_queue_new(&info, &q) < 0)
                return 1;
        while (!is_attached())
                if (input_ended(10))
                        return 1;
        puts("attached");
        fflush(stdout);
        do {
                if (xsched_queue_begin(q) == XSCHED_TRACKED)
                        xsched_queue_complete(q, 1, 1000);
                n++;
        } while (!input_ended(1));
        xsched_queue_unref(q);
        printf("%lu\n", n);
        return 0;
}
