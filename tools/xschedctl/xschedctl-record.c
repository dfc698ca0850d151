/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * record: from the service's stream to a file
 *
 * The stream is copied as it comes. To end the recording, our side is shut down: the service then sends the usage of
 * all entities, and closes its side.
 */

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "common/time-util.h"
#include "common/write-all.h"
#include "tools/shared/ctl-bus.h"
#include "tools/xschedctl/xschedctl.h"

#define SIZE_USUAL ((uint64_t) 1 << 30)

/* The part of a line that tells its kind: lines of these kinds are shorter. */
#define LINE_MAX_LOOKED 128U

typedef struct Recording {
        int from, to, signals;
        uint64_t until_ns, max_size;
        uint64_t n_bytes, n_records, n_lost;
        bool ending; /* our side is shut down */
        bool ended;  /* the last record has come */
        char line[LINE_MAX_LOOKED];
        size_t n_line;
} Recording;

/* An exit status. */
static int start(Ctl *c, int argc, char *argv[], int *ret) {
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *m = NULL, *reply = NULL;
        int fd;

        int r = ctl_new_call(c, NULL, NULL, "StartRecording", &m);
        if (r >= 0)
                r = sd_bus_message_open_container(m, 'a', "s");
        for (int i = 0; i < argc && r >= 0; i++)
                r = sd_bus_message_append(m, "s", startswith(argv[i], "device:") ?: argv[i]);
        if (r >= 0)
                r = sd_bus_message_close_container(m);
        if (r >= 0)
                r = sd_bus_message_append(m, "t", UINT64_C(0));
        if (r >= 0)
                r = ctl_call(c, m, &error, &reply);
        if (r >= 0)
                r = sd_bus_message_read_basic(reply, 'h', &fd);
        if (r < 0)
                return ctl_call_failed(c, &error, r, argc == 1 ? argv[0] : NULL);
        *ret = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        return *ret < 0 ? ctl_fail("cannot keep the recording: %m") : 0;
}

static void line_ended(Recording *rec) {
        uint64_t lost;

        rec->line[MIN(rec->n_line, sizeof(rec->line) - 1)] = '\0';
        rec->n_line = 0;
        rec->n_records++;
        if (sscanf(rec->line, "{\"is\":\"lost\",\"records\":%" SCNu64, &lost) == 1)
                rec->n_lost += lost;
        rec->ended = startswith(rec->line, "{\"is\":\"end\"");
}

static void look(Recording *rec, const char *data, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (data[i] == '\n')
                        line_ended(rec);
                else if (rec->n_line < sizeof(rec->line))
                        rec->line[rec->n_line++] = data[i];
}

static void end(Recording *rec) {
        if (!rec->ending)
                (void) shutdown(rec->from, SHUT_WR);
        rec->ending = true;
}

/* Returns > 0: there is more to come; 0: that was all. */
static int copy(Recording *rec) {
        char buf[65536];

        ssize_t n = read(rec->from, buf, sizeof(buf));
        if (n < 0)
                return errno == EINTR ? 1 : -errno;
        if (n == 0)
                return 0;
        int r = write_all(rec->to, buf, (size_t) n);
        if (r < 0)
                return r;
        look(rec, buf, (size_t) n);
        rec->n_bytes += (uint64_t) n;
        if (rec->n_bytes >= rec->max_size)
                end(rec);
        return 1;
}

/* A second signal ends the recording without its last record. */
static int run(Recording *rec) {
        struct pollfd fds[] = {{.fd = rec->from, .events = POLLIN}, {.fd = rec->signals, .events = POLLIN}};
        int r = 1;

        while (r > 0) {
                uint64_t now = now_ns();
                struct signalfd_siginfo si;

                if (now >= rec->until_ns)
                        end(rec);
                const struct timespec left = ns_to_timespec(ns_sub(rec->until_ns, now));
                if (ppoll(fds, ELEMENTSOF(fds), rec->ending || rec->until_ns == NSEC_INFINITY ? NULL : &left, NULL) < 0)
                        return -errno;
                if ((fds[1].revents & POLLIN) && read(rec->signals, &si, sizeof(si)) == (ssize_t) sizeof(si)) {
                        if (rec->ending)
                                return 0;
                        end(rec);
                }
                if (fds[0].revents != 0)
                        r = copy(rec);
        }
        return r;
}

static int tell(const Recording *rec, const char *name) {
        if (!rec->ended)
                return ctl_fail("%s is cut after %" PRIu64 " records: xschedd has ended", name, rec->n_records);
        fprintf(stderr, "%s: %" PRIu64 " records, %" PRIu64 " bytes\n", name, rec->n_records, rec->n_bytes);
        if (rec->n_lost > 0)
                fprintf(stderr, "%s: %" PRIu64 " records were lost: they came faster than they could be written\n",
                                name, rec->n_lost);
        return 0;
}

static int open_signals(void) {
        sigset_t mask;

        (void) sigemptyset(&mask);
        (void) sigaddset(&mask, SIGINT);
        (void) sigaddset(&mask, SIGTERM);
        (void) sigprocmask(SIG_BLOCK, &mask, NULL);
        return signalfd(-1, &mask, SFD_CLOEXEC);
}

/* Opens a file whose content stays until the recording has begun: the service may refuse it. */
static int open_output(const char *name, bool *ret_created) {
        int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        bool created = fd >= 0;

        if (fd < 0 && errno == EEXIST)
                fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0)
                return negative_errno();
        *ret_created = created;
        return fd;
}

/* What is no regular file has no content to end. */
static int empty(int fd) {
        struct stat st;

        if (fstat(fd, &st) < 0 || (S_ISREG(st.st_mode) && ftruncate(fd, 0) < 0))
                return negative_errno();
        return 0;
}

int verb_record(Ctl *c, int argc, char *argv[]) {
        _cleanup_close_ int from = -EBADF, file = -EBADF, signals = -EBADF;
        bool is_file = c->output && !streq(c->output, "-"), created = false;

        if (!c->output)
                return ctl_fail("record wants --output=FILE; - is standard output");
        int r = ctl_connect(c);
        if (r != 0)
                return r;
        if (is_file) {
                file = open_output(c->output, &created);
                if (file < 0)
                        return ctl_fail("%s: %s", c->output, strerror(-file));
        }
        signals = open_signals();
        if (signals < 0)
                return ctl_fail("cannot wait for signals: %m");
        r = start(c, argc, argv, &from);
        if (r != 0) {
                if (created)
                        (void) unlink(c->output);
                return r;
        }
        r = is_file ? empty(file) : 0;
        if (r < 0)
                return ctl_fail("%s: %s", c->output, strerror(-r));

        Recording rec = {
                        .from = from,
                        .to = is_file ? file : STDOUT_FILENO,
                        .signals = signals,
                        .until_ns = c->duration_ns > 0 ? ns_add(now_ns(), c->duration_ns) : NSEC_INFINITY,
                        .max_size = c->max_size > 0 ? c->max_size : SIZE_USUAL,
        };
        const char *name = is_file ? c->output : "standard output";
        r = run(&rec);
        return r < 0 ? ctl_fail("%s: %s", name, strerror(-r)) : tell(&rec, name);
}
