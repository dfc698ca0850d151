/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * register: a command as a client of the service, without the shim
 *
 * The verb registers this process, with one queue that has work for as long as the process lives, and becomes the
 * command. Of what it got from the service the command keeps the lifeline, as an open descriptor: the client ends with
 * it, or with the process. Nobody in the process obeys verdicts; only the service can stop it (PrivilegedPreemption=).
 */

#include <fcntl.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/bus-names.h"
#include "common/page.h"
#include "tools/shared/ctl-bus.h"
#include "tools/shared/exit-status.h"
#include "tools/unit/polkit-agent.h"
#include "tools/xschedctl/xschedctl.h"

#define NO_SERVICE (-1) /* told; the command runs all the same */

typedef struct Registration {
        Ctl *ctl;
        const char *device, *command;
        sd_bus_message *client; /* reply of RegisterClient, which owns the fds */
        int page, lifeline, wake;
        uint32_t slot;
} Registration;

static int tell_without(const Registration *r) {
        char buf[256];

        fprintf(stderr, "xschedctl: xschedd is not running on %s: %s runs unscheduled\n",
                        ctl_bus_describe(r->ctl, buf, sizeof(buf)), r->command);
        return NO_SERVICE;
}

static int call_failed(const Registration *r, sd_bus_error *error, int e) {
        return error_is_not_running(error, e) ? tell_without(r) : ctl_call_failed(r->ctl, error, e, r->device);
}

/* This and the next ones return 0; or, after a message, NO_SERVICE or an exit status. */
static int register_client(Registration *r, const char **ret_path) {
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;

        int e = ctl_call_method(r->ctl, NULL, NULL, "RegisterClient", &error, &r->client, "ta{sv}", UINT64_C(0), 2,
                        "Backend", "s", "none", "Job", "s", strempty(getenv("XSCHED_JOB")));
        if (e >= 0)
                e = sd_bus_message_read(r->client, "ohhh", ret_path, &r->page, &r->lifeline, &r->wake);
        return e < 0 ? call_failed(r, &error, e) : 0;
}

static int register_queue(Registration *r, const char *path) {
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *reply = NULL;
        uint64_t id;

        int e = ctl_call_method(r->ctl, NULL, NULL, "RegisterQueue", &error, &reply, "oa{sv}", path, 3, "Device", "s",
                        r->device, "Backend", "s", "none", "Hooked", "s", "none");
        if (e >= 0)
                e = sd_bus_message_read(reply, "tu", &id, &r->slot);
        return e < 0 ? call_failed(r, &error, e) : 0;
}

/* Counts one launch, which never ends. The service keeps the page. */
static int begin_work(const Registration *r) {
        _cleanup_(page_done)
        Page page = PAGE_NULL;
        const uint64_t one = 1;

        _cleanup_close_ int fd = fcntl(r->page, F_DUPFD_CLOEXEC, 3);
        int e = fd < 0 ? negative_errno() : page_open(fd, &page);
        if (e < 0)
                return ctl_fail("cannot use the service's page: %s", strerror(-e));
        TAKE_FD(fd);
        PageSlot *s = page_slot(&page, r->slot);
        if (!s)
                return ctl_fail("cannot use the service's page: no slot %u", (unsigned) r->slot);
        uint64_t now = now_ns();
        atomic_store_explicit(&s->ready_since_ns, now, memory_order_relaxed);
        atomic_store_explicit(&s->launched_ns, now, memory_order_relaxed);
        atomic_store_explicit(&s->submitted, 1, memory_order_relaxed);
        (void) page_slot_begin(s);
        page_mark_dirty(page.header, r->slot);
        /* A full counter wakes the service as well. */
        (void) write(r->wake, &one, sizeof(one));
        return 0;
}

/* The command inherits it. */
static int keep_lifeline(const Registration *r) {
        return fcntl(r->lifeline, F_DUPFD, 3) < 0 ? ctl_fail("cannot keep the lifeline: %m") : 0;
}

static int register_us(Registration *r) {
        const char *path = NULL;

        int e = ctl_open_bus(r->ctl) >= 0 ? register_client(r, &path) : tell_without(r);
        if (e == 0)
                e = register_queue(r, path);
        if (e == 0)
                e = begin_work(r);
        return e == 0 ? keep_lifeline(r) : e;
}

int verb_register(Ctl *c, int argc, char *argv[]) {
        Registration r = {.ctl = c, .device = argv[0], .command = argv[1]};

        /* The service shows clients by this name. */
        const char *slash = strrchr(argv[1], '/');
        (void) prctl(PR_SET_NAME, slash ? slash + 1 : argv[1]);
        int e = register_us(&r);
        sd_bus_message_unref(r.client);
        if (e > 0)
                return EXIT_OURS;
        /* A shim in the command would register it once more. */
        if (setenv("XSCHED_DISABLE", "1", 1) < 0)
                return (void) ctl_fail("out of memory"), EXIT_OURS;
        polkit_agent_close();
        execvp(argv[1], argv + 1);
        int status = errno == ENOENT ? EXIT_NO_COMMAND : EXIT_CANNOT_EXEC;
        (void) ctl_fail("cannot run %s: %m", argv[1]);
        return status;
}
