/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * run: a command as a job, with the shim in its environment
 *
 * The command replaces this process, so its parent, its terminal, its signals and its exit status are what they would be
 * without us. The job is bound to this process by pidfd before that: it ends with the command, and the token in the
 * environment admits what the command starts.
 *
 * Without a service the command runs, too, and is told so once: being scheduled must never be what a job depends on.
 */

#include <ctype.h>
#include <stdio.h>
#include <sys/pidfd.h>

#include "tools/exit-status.h"
#include "tools/shim-env.h"
#include "tools/xschedctl-bus.h"
#include "tools/xschedctl-set.h"

/* A command may be called anything, a job may not: it must not be the name that keeps a command from running. */
static const char *default_job_name(const char *command, char *buf, size_t size) {
        const char *slash = strrchr(command, '/'), *s = slash ? slash + 1 : command;
        size_t n = 0;

        for (; *s && n < size - 1; s++)
                buf[n++] = (char) (isalnum((unsigned char) *s) || strchr("._:@+-", *s) ? *s : '_');
        buf[n] = '\0';
        return buf;
}

static int new_job_call(Ctl *c, const char *name, int pidfd, sd_bus_message **ret) {
        int r;

        r = ctl_new_call(c, NULL, NULL, "CreateJob", ret);
        if (r >= 0)
                r = sd_bus_message_append_basic(*ret, 's', name);
        if (r >= 0)
                r = sd_bus_message_open_container(*ret, 'a', "{sv}");
        if (r < 0)
                return ctl_fail("cannot make a job: %s", strerror(-r));
        for (size_t i = 0; i < c->n_job_settings; i++) {
                r = settings_append(*ret, OBJECT_GROUP, c->job_settings[i]);
                if (r != 0)
                        return r;
        }
        r = sd_bus_message_close_container(*ret);
        if (r >= 0)
                r = sd_bus_message_append(*ret, "ht", pidfd, UINT64_C(0));
        return r < 0 ? ctl_fail("cannot make a job: %s", strerror(-r)) : 0;
}

static int tell_unscheduled(const Ctl *c, const char *command) {
        char buf[256];

        fprintf(stderr, "xschedctl: xschedd is not running on %s: %s runs unscheduled\n",
                        ctl_bus_describe(c, buf, sizeof(buf)), command);
        return 0;
}

/* An exit status; 0 also when there is no service. */
static int create_job(Ctl *c, const char *command) {
        const char *token;
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *m = NULL, *reply = NULL;
        _cleanup_close_ int pidfd = -EBADF;
        char name[64];
        int r;

        r = ctl_open_bus(c);
        if (r < 0)
                return tell_unscheduled(c, command);
        if (c->user_bus) {
                const char *address;

                /* The shim knows the system bus by itself, but no other. */
                r = sd_bus_get_address(c->bus, &address);
                if (r < 0 || setenv("XSCHED_BUS_ADDRESS", address, 1) < 0)
                        return ctl_fail("cannot name the user bus in the environment");
        }
        pidfd = pidfd_open(getpid(), 0);
        if (pidfd < 0)
                return ctl_fail("cannot make a job: %m");

        r = new_job_call(c, c->job_name ?: default_job_name(command, name, sizeof(name)), pidfd, &m);
        if (r != 0)
                return r;
        r = ctl_call(c, m, &error, &reply);
        if (r < 0 && error_is_not_running(&error, r))
                return tell_unscheduled(c, command);
        if (r < 0)
                return ctl_call_failed(c, &error, r, c->job_name ?: command);
        r = sd_bus_message_read_basic(reply, 's', &token);
        if (r < 0 || setenv("XSCHED_JOB", token, 1) < 0)
                return ctl_fail("cannot make a job: %s", strerror(r < 0 ? -r : errno));
        return 0;
}

static int set_shim_environment(const Ctl *c) {
        int mode = c->shim ? shim_mode_from_string(c->shim) : SHIM_LAYER, r;

        if (mode < 0)
                return ctl_fail("--shim= is one of layer, preload, none");
        /* The command's shim goes where we went. */
        if (c->bus_address && setenv("XSCHED_BUS_ADDRESS", c->bus_address, 1) < 0)
                return ctl_fail("out of memory");
        if (c->system_bus)
                (void) unsetenv("XSCHED_BUS_ADDRESS");
        r = shim_setenv((ShimMode) mode);
        return r < 0 ? ctl_fail("cannot name the shim in the environment: %s", strerror(-r)) : 0;
}

int verb_run(Ctl *c, int argc, char *argv[]) {
        int r;

        r = set_shim_environment(c);
        if (r == 0)
                r = create_job(c, argv[0]);
        if (r != 0)
                return EXIT_OURS;

        /* sd-bus closes its descriptors on exec; so are the pidfd and all else. */
        execvp(argv[0], argv);
        r = errno == ENOENT ? EXIT_NO_COMMAND : EXIT_CANNOT_EXEC;
        ctl_fail("cannot run %s: %m", argv[0]);
        return r;
}
