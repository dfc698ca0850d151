/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A process with a GPU queue that registers with the service, but does not stop its own launches: they do not wait at
 * the gate
 *
 * So only others can hold it. Takes the number of a simulated GPU and the id of the device that it registers with;
 * keeps the queue full, says "ready" when it is registered and executes, and then obeys standard input, a line for a
 * line:
 *
 *   count     how many dispatches have been executed
 *   queue     KFD's number of its queue
 *   finish    launches no more; when all is done: "clean", or what became of it, by the proof
 *
 * The end of the input ends it.
 */

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>

#include <fcntl.h>

#include "aql.h"
#include "common/macro.h"
#include "hal/kfd-abi.h"
#include "tests/lib/deadline.h"
#include "xsched/xsched.h"

#define DURATION_NS (2 * NSEC_PER_MSEC)
#define DEPTH       64U

static AqlQueue *aql;
static XschedQueue *queue;

/* Uncounted launches stay outstanding: the queue always has work. */
static void drain(XschedQueue *q, void *userdata) {
}

static void launch(void) {
        while (aql_queue_backlog(aql) < DEPTH && aql_dispatch(aql, DURATION_NS, NULL) >= 0)
                (void) xsched_queue_begin_nowait(queue);
        aql_ring(aql);
}

static bool is_registered(void) {
        XschedCounters c = {.size = sizeof(c)};

        (void) xsched_get_counters(&c);
        launch();
        return c.state == XSCHED_STATE_ATTACHED && c.queues == 1 && aql_queue_executed(aql) > 0;
}

static void finish(void) {
        (void) aql_queue_wait(aql, now_ns() + TEST_DEADLINE_NS);
        AqlReport r = aql_queue_report(aql);
        if (aql_report_is_clean(&r) && r.n_dispatched > 0)
                puts("clean");
        else
                printf("dispatched %" PRIu64 " executed %" PRIu64 " lost %" PRIu64 " doubled %" PRIu64 " late %" PRIu64
                       " unfinished %" PRIu64 "\n",
                                r.n_dispatched, r.n_executed, r.n_lost, r.n_doubled, r.n_late, r.n_unfinished);
}

/* Whether it goes on launching. */
static bool obey(const char *line) {
        if (startswith(line, "finish")) {
                finish();
                return false;
        }
        if (startswith(line, "queue"))
                printf("%u\n", aql_queue_id(aql));
        else
                printf("%" PRIu64 "\n", aql_queue_executed(aql));
        return true;
}

static int enable_runtime(void) {
        _cleanup_close_ int fd = open(KFD_DEVICE_PATH, O_RDWR | O_CLOEXEC);
        KfdRuntimeEnable e = {.mode_mask = KFD_RUNTIME_MODE_ENABLE};

        return fd < 0 || ioctl(fd, KFD_IOC_RUNTIME_ENABLE, &e) < 0 ? negative_errno() : 0;
}

int main(int argc, char *argv[]) {
        struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
        AqlDevice device;
        bool launches = true;
        char line[64];

        if (argc != 3 || aql_device_open((unsigned) atoi(argv[1]), &device) < 0 || enable_runtime() < 0 ||
                        aql_queue_create(&device, NULL, &aql) < 0)
                return EXIT_FAILURE;
        const XschedQueueInfo info = {.size = sizeof(info), .device = argv[2], .backend = "test", .drain = drain};
        if (xsched_queue_new(&info, &queue) < 0 || !poll_until(is_registered()))
                return EXIT_FAILURE;
        (void) setvbuf(stdin, NULL, _IONBF, 0);
        (void) setvbuf(stdout, NULL, _IOLBF, 0);
        puts("ready");
        for (;;) {
                if (launches)
                        launch();
                if (poll(&p, 1, launches ? 1 : -1) <= 0)
                        continue;
                if (!fgets(line, sizeof(line), stdin))
                        return EXIT_SUCCESS;
                launches = obey(line) && launches;
        }
}
