/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A program that is scheduled: queues on a device that need not exist, launches by command
 *
 * For tests that drive whole programs. Takes a device's id and a number of queues, says "ready" once all are registered
 * ("unscheduled" at once with XSCHED_DISABLE=1), and then obeys standard input, a line for a line:
 *
 *   begin Q       one launch on queue Q passes the gate: "tracked" or "untracked", late if the gate is held
 *   complete Q    it has completed
 *   run N         N launches on every queue, each completed at once: "ran"
 *   sample MS     launches on the first queue for so long, each completed at once, and whether they were watched
 *                 meanwhile: "LAUNCHES NS LAUNCHES NS NS", in the time that nobody watched, in the rest, and the
 *                 longest piece of that
 *   work [MS]     launches on the first queue one after the other from now on, in the background, each one step of a
 *                 sum, and MS of device time: "working"
 *   stream        as work, but the next launch waits while one runs: "streaming"
 *   progress      steps so far
 *   worked        microseconds that they took, without the waits in between
 *   rest          no more of that, when the last has passed: "STEPS SUM"
 *   counters      "STATE QUEUES LAUNCHES TRACKED WAITED"
 *   close         all descriptors but the standard ones, as daemons do: "closed"
 *   open N        so many sockets, with the numbers that are free: "opened"
 *   read          what came through these, in bytes, and how many somebody else has closed: "BYTES CLOSED"
 *
 * The end of the input ends it, with status 0; a queue's "device time" is one millisecond a launch where it is not
 * said.
 */

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/client-environment.h"
#include "common/macro.h"
#include "tests/lib/deadline.h"
#include "xsched/xsched.h"

#define QUEUES_MAX 1024

static XschedQueue *queues[QUEUES_MAX];
static size_t n_queues;

static void drain(XschedQueue *q, void *userdata) {
        xsched_queue_drained(q);
}

static XschedCounters counters(void) {
        XschedCounters c = {.size = sizeof(c)};

        (void) xsched_get_counters(&c);
        return c;
}

static bool is_registered(void) {
        XschedCounters c = counters();

        return c.state == XSCHED_STATE_ATTACHED && c.queues == n_queues;
}

static void run(unsigned long n) {
        for (unsigned long i = 0; i < n; i++)
                for (size_t q = 0; q < n_queues; q++)
                        if (xsched_queue_begin(queues[q]) == XSCHED_TRACKED)
                                xsched_queue_complete(queues[q], 1, NSEC_PER_MSEC);
}

/* --- what it costs to be watched --- */

#define BATCH 64U /* launches between two looks at the clock */

typedef struct Time {
        uint64_t launches, ns;
} Time;

static bool is_watched(void) {
        return xsched_queue_get_state(queues[0]) & XSCHED_QUEUE_WATCHED;
}

static void sample(unsigned long ms, char *answer, size_t size) {
        Time unwatched = {}, watched = {};
        uint64_t piece = 0, longest = 0, now = now_ns(), end = now + ms * NSEC_PER_MSEC;

        for (bool before = is_watched(); now < end;) {
                uint64_t began = now;

                for (unsigned i = 0; i < BATCH; i++)
                        if (xsched_queue_begin(queues[0]) == XSCHED_TRACKED)
                                xsched_queue_complete(queues[0], 1, NSEC_PER_MSEC);
                bool after = is_watched(), either = before || after;
                Time *t = either ? &watched : &unwatched;

                now = now_ns();
                t->launches += BATCH;
                t->ns += now - began;
                piece = either ? piece + now - began : 0;
                longest = MAX(longest, piece);
                before = after;
        }
        (void) snprintf(answer, size, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, unwatched.launches,
                        unwatched.ns, watched.launches, watched.ns, longest);
}

/* --- work: what takes the device for a while, and can be checked --- */

static pthread_t worker;
static _Atomic bool resting = true;
static _Atomic unsigned long n_steps;
static _Atomic uint64_t worked_ns;
static uint64_t sum, launch_ms = 1;

typedef struct Launch {
        bool tracked, over;
} Launch;

/* A launch runs. Asleep: how busy the machine is does not matter to the device. */
static void run_launch(void *userdata) {
        const struct timespec device_time = ns_to_timespec(launch_ms * NSEC_PER_MSEC);
        Launch *l = userdata;
        uint64_t begin = now_ns();

        (void) nanosleep(&device_time, NULL);
        sum = sum * 3 + ++n_steps;
        worked_ns += now_ns() - begin;
        l->over = true;
        if (l->tracked)
                xsched_queue_complete(queues[0], 1, launch_ms * NSEC_PER_MSEC);
}

static void *work(void *unused) {
        while (!resting) {
                Launch l = {.tracked = xsched_queue_begin(queues[0]) == XSCHED_TRACKED};

                run_launch(&l);
        }
        return NULL;
}

/* There is room for the next launch when the one before it is over. */
static void *stream(void *unused) {
        Launch l = {.tracked = xsched_queue_begin(queues[0]) == XSCHED_TRACKED};

        while (!resting) {
                bool next = xsched_queue_begin_bounded(queues[0], run_launch, &l) == XSCHED_TRACKED;

                if (!l.over)
                        run_launch(&l); /* the service does not watch: no launch has asked for room */
                l = (Launch){.tracked = next};
        }
        run_launch(&l);
        return NULL;
}

static const char *begin_work(void *(*main)(void *), const char *answer) {
        resting = false;
        return pthread_create(&worker, NULL, main, NULL) == 0 ? answer : "?";
}

static const char *end_work(char *answer, size_t size) {
        resting = true;
        (void) pthread_join(worker, NULL);
        (void) snprintf(answer, size, "%lu %" PRIu64, n_steps, sum);
        return answer;
}

/* --- a program that closes what is not its own, and has the numbers for itself then --- */

#define PAIRS_MAX 2048

static int pairs[PAIRS_MAX][2];
static size_t n_pairs;

static const char *open_pairs(size_t n) {
        for (n_pairs = 0; n_pairs < MIN(n, (size_t) PAIRS_MAX); n_pairs++)
                if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pairs[n_pairs]) < 0)
                        return "?";
        return "opened";
}

static const char *read_pairs(char *answer, size_t size) {
        unsigned n_closed = 0;
        size_t n_bytes = 0;

        for (size_t i = 0; i < 2 * n_pairs; i++) {
                char data[4096];
                ssize_t n = read(pairs[i / 2][i % 2], data, sizeof(data));

                n_bytes += n > 0 ? (size_t) n : 0;
                n_closed += n == 0 || (n < 0 && errno != EAGAIN);
        }
        (void) snprintf(answer, size, "%zu %u", n_bytes, n_closed);
        return answer;
}

static const char *obey(const char *line, char *answer, size_t size) {
        XschedCounters c = counters();
        unsigned long n = 0;
        char verb[16] = "";

        if (sscanf(line, "%15s %lu", verb, &n) < 1)
                return "?";
        if (streq(verb, "run")) {
                run(n);
                return "ran";
        }
        if (streq(verb, "sample") && n_queues > 0) {
                sample(n, answer, size);
                return answer;
        }
        if (streq(verb, "work") && resting) {
                launch_ms = CLAMP(n, 1UL, 1000UL);
                return begin_work(work, "working");
        }
        if (streq(verb, "stream") && resting)
                return begin_work(stream, "streaming");
        if (streq(verb, "worked")) {
                (void) snprintf(answer, size, "%" PRIu64, worked_ns / NSEC_PER_USEC);
                return answer;
        }
        if (streq(verb, "progress")) {
                (void) snprintf(answer, size, "%lu", n_steps);
                return answer;
        }
        if (streq(verb, "rest") && !resting)
                return end_work(answer, size);
        if (streq(verb, "begin") && n < n_queues)
                return xsched_queue_begin(queues[n]) == XSCHED_TRACKED ? "tracked" : "untracked";
        if (streq(verb, "complete") && n < n_queues) {
                xsched_queue_complete(queues[n], 1, NSEC_PER_MSEC);
                return "completed";
        }
        if (streq(verb, "counters")) {
                snprintf(answer, size, "%" PRIu32 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, c.state, c.queues,
                                c.launches, c.tracked, c.waited);
                return answer;
        }
        if (streq(verb, "close"))
                return close_range(STDERR_FILENO + 1, ~0U, 0) == 0 ? "closed" : "?";
        if (streq(verb, "open"))
                return open_pairs(n);
        if (streq(verb, "read"))
                return read_pairs(answer, size);
        return "?";
}

int main(int argc, char *argv[]) {
        char line[256], answer[256];

        if (argc != 3 || strtoul(argv[2], NULL, 10) > QUEUES_MAX) {
                fprintf(stderr, "%s DEVICE QUEUES\n", argv[0]);
                return 2;
        }
        for (n_queues = 0; n_queues < strtoul(argv[2], NULL, 10); n_queues++) {
                char label[32];

                snprintf(label, sizeof(label), "queue %zu", n_queues);
                const XschedQueueInfo info = {
                                .size = sizeof(info),
                                .device = argv[1],
                                .device_name = "Device of a test",
                                .backend = "test",
                                .label = label,
                                .drain = drain,
                };
                if (xsched_queue_new(&info, queues + n_queues) < 0)
                        return 1;
        }
        if (!environment_is_true(getenv("XSCHED_DISABLE")) && !poll_until(is_registered())) {
                fprintf(stderr, "%s: was not registered\n", argv[0]);
                return 1;
        }
        puts(environment_is_true(getenv("XSCHED_DISABLE")) ? "unscheduled" : "ready");
        fflush(stdout);
        while (fgets(line, sizeof(line), stdin)) {
                puts(obey(line, answer, sizeof(answer)));
                fflush(stdout);
        }
        for (size_t i = 0; i < n_queues; i++)
                xsched_queue_unref(queues[i]);
        return 0;
}
