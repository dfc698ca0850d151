/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Run time of an entity that is alone, as the GPU's driver counts it
 */

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <utlist.h>

#include "account-driver.h"
#include "client.h"
#include "common/stream-util.h"
#include "hal/gpu-usage.h"
#include "service/base/log.h"
#include "service/base/metrics-child.h"

#define ANSWER_MAX 256U

struct AccountDriver {
        Device *device;
        sd_event_source *child, *output_source, *timeout;
        int input, output;
        char answer[ANSWER_MAX];
        size_t n_answer;
        Entity *asked_about; /* NULL: no question is open */
        account_driver_answer_t on_answer;
        uint64_t asked_at;
        bool begins; /* the question comes after a pause: its answer is about the time before */
        bool counts;
        bool sees_nothing; /* the last answer said that nothing ran */
        uint64_t failed_until;
};

static void stop(AccountDriver *a) {
        a->child = sd_event_source_disable_unref(a->child); /* ends and reaps it */
        a->output_source = sd_event_source_disable_unref(a->output_source);
        a->timeout = sd_event_source_disable_unref(a->timeout);
        a->input = safe_close(a->input);
        a->output = safe_close(a->output);
        a->n_answer = 0;
        a->asked_about = NULL;
        a->counts = a->sees_nothing = false;
}

static void fail(AccountDriver *a, const char *why) {
        log_debug("What the driver of %s counts is not used for a while: %s", a->device->id, why);
        stop(a);
        a->failed_until = now_ns() + ACCOUNT_DRIVER_RETRY_NS;
}

/* The question is closed: its answer is not needed any more, or is overdue. */
static void ended(AccountDriver *a) {
        if (a->asked_about)
                fail(a, "its process has ended");
        else
                stop(a);
}

/* --- answers --- */

/* Lines of the child: "ran SPAN RAN" in microseconds, "source TEXT", or "none TEXT". */
static void take_line(AccountDriver *a, const char *line) {
        uint64_t span_us, ran_us;

        if (startswith(line, "source ")) {
                log_debug("%s is counted by its driver: %s", a->device->id, line + strlen("source "));
                return;
        }
        if (!a->asked_about || sscanf(line, "ran %15" SCNu64 " %15" SCNu64, &span_us, &ran_us) != 2) {
                fail(a, line);
                return;
        }
        Entity *e = TAKE_PTR(a->asked_about);
        a->timeout = sd_event_source_disable_unref(a->timeout);
        if (a->begins)
                span_us = ran_us = 0;
        a->counts = ran_us > 0 || span_us == 0;
        a->sees_nothing = !a->counts;
        a->on_answer(a->device, e, span_us * NSEC_PER_USEC, ran_us * NSEC_PER_USEC);
}

static int on_output(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        AccountDriver *a = userdata;
        char *newline;

        ssize_t n = read(fd, a->answer + a->n_answer, sizeof(a->answer) - 1 - a->n_answer);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        if (n <= 0) {
                ended(a);
                return 0;
        }
        a->n_answer += (size_t) n;
        a->answer[a->n_answer] = '\0';
        while (a->n_answer > 0 && (newline = strchr(a->answer, '\n'))) {
                char line[ANSWER_MAX];
                size_t length = (size_t) (newline - a->answer);

                memcpy(line, a->answer, length);
                line[length] = '\0';
                a->n_answer -= length + 1;
                memmove(a->answer, newline + 1, a->n_answer + 1);
                take_line(a, line);
        }
        if (a->n_answer >= sizeof(a->answer) - 1)
                fail(a, "it says too much");
        return 0;
}

static int on_child(sd_event_source *source, const siginfo_t *si, void *userdata) {
        ended(userdata);
        return 0;
}

static int on_timeout(sd_event_source *source, uint64_t usec, void *userdata) {
        fail(userdata, "it does not answer");
        return 0;
}

/* --- the child --- */

static int start(AccountDriver *a) {
        sd_event *event = a->device->manager->event;
        int to[2], from[2];
        pid_t pid;

        if (pipe2(to, O_CLOEXEC | O_NONBLOCK) < 0)
                return negative_errno();
        _cleanup_close_ int their_input = to[0];
        a->input = to[1];
        if (pipe2(from, O_CLOEXEC | O_NONBLOCK) < 0)
                return negative_errno();
        _cleanup_close_ int their_output = from[1];
        a->output = from[0];
        int r = metrics_spawn("--usage", a->device->id, their_input, their_output, &pid);
        if (r < 0)
                return r;
        r = sd_event_add_child(event, &a->child, pid, WEXITED, on_child, a);
        if (r < 0) {
                (void) kill(pid, SIGKILL);
                (void) waitpid(pid, NULL, 0);
                return r;
        }
        r = sd_event_source_set_child_process_own(a->child, true);
        if (r >= 0)
                r = sd_event_add_io(event, &a->output_source, a->output, EPOLLIN, on_output, a);
        return r;
}

/* Whether the kernel knows a GPU at the device's PCI address. A client cannot make such a device up. */
static bool may_be_known(const Device *d) {
        PciAddress address;

        return (d->gpu || secure_getenv("XSCHED_METRICS")) && pci_address_parse(d->id, &address) >= 0;
}

static AccountDriver *driver_get(Device *d) {
        if (d->account_driver || !may_be_known(d))
                return d->account_driver;
        d->account_driver = calloc(1, sizeof(*d->account_driver));
        if (d->account_driver)
                *d->account_driver = (AccountDriver){.device = d, .input = -EBADF, .output = -EBADF};
        return d->account_driver;
}

/* Prints the pids of the entity's clients. 0: there are more than one question can have. */
static size_t print_pids(const Entity *e, char *buf, size_t size) {
        pid_t pids[GPU_USAGE_PIDS_MAX];
        size_t n_pids = 0, n = 0;
        const Queue *q;

        DL_FOREACH2(e->queues, q, entity_next) {
                size_t i = 0;
                while (i < n_pids && pids[i] != q->client->peer.pid)
                        i++;
                if (i < n_pids)
                        continue;
                if (n_pids >= ELEMENTSOF(pids))
                        return 0;
                pids[n_pids++] = q->client->peer.pid;
        }
        for (size_t i = 0; i < n_pids; i++)
                n += (size_t) snprintf(buf + n, size - n, "%i%c", (int) pids[i], i + 1 < n_pids ? ' ' : '\n');
        return n;
}

void account_driver_ask(Device *d, Entity *e, uint64_t now, account_driver_answer_t answer) {
        char question[GPU_USAGE_PIDS_MAX * 12];
        AccountDriver *a = driver_get(d);

        if (!a || now < a->failed_until || a->asked_about)
                return;
        size_t n = print_pids(e, question, sizeof(question));
        if (n == 0) {
                stop(a);
                return;
        }
        int r = a->child ? 0 : start(a);
        if (r >= 0 && write(a->input, question, n) != (ssize_t) n)
                r = -EPIPE;
        if (r >= 0)
                r = sd_event_add_time_relative(d->manager->event, &a->timeout, CLOCK_MONOTONIC,
                                ACCOUNT_DRIVER_ANSWER_NS / NSEC_PER_USEC, 0, on_timeout, a);
        if (r < 0) {
                fail(a, "it cannot be asked");
                return;
        }
        a->begins = ns_sub(now, a->asked_at) > ACCOUNT_DRIVER_PAUSE_NS;
        a->asked_at = now;
        a->asked_about = e;
        a->on_answer = answer;
}

bool account_driver_counts(const Device *d) {
        return d->account_driver && d->account_driver->counts;
}

void account_driver_seen(Device *d, uint64_t now) {
        if (d->account_driver && d->account_driver->sees_nothing)
                fail(d->account_driver, "it does not see what runs");
}

AccountDriver *account_driver_free(AccountDriver *a) {
        if (a)
                stop(a);
        free(a);
        return NULL;
}
