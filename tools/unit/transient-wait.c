/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Waits until a transient service has ended
 *
 * systemd keeps the unit after its end while our connection is open (AddRef), so that its result can be read.
 */

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "common/parse-util.h"
#include "common/time-util.h"
#include "tools/shared/exit-status.h"
#include "tools/unit/transient-unit.h"
#include "transient-wait.h"

#define EXIT_BY_SIGNAL 255 /* as systemd-run has it */

typedef struct Wait {
        TransientUnit *unit;
        sd_event *event;
        bool stopping;
        bool done;  /* not sd_event_exit(): that would close the bus before the last questions */
        int result; /* the result: 0, an exit status when we were told to stop, or a negative errno */
} Wait;

static int wait_end(Wait *w, int result) {
        if (!w->done)
                w->result = result;
        w->done = true;
        return 0;
}

static int get_string(TransientUnit *u, const char *interface, const char *property, char **ret) {
        return sd_bus_get_property_string(u->bus, SYSTEMD_NAME, u->path, interface, property, NULL, ret);
}

static bool has_ended(TransientUnit *u) {
        _cleanup_free_ char *state = NULL;

        return get_string(u, SYSTEMD_UNIT, "ActiveState", &state) >= 0 &&
                        (streq(state, "inactive") || streq(state, "failed"));
}

static int on_changed(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        Wait *w = userdata;

        return has_ended(w->unit) ? wait_end(w, 0) : 0;
}

static int on_disconnected(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        return wait_end(userdata, -ECONNRESET);
}

/* --- signals --- */

static int on_sent(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        const sd_bus_error *e = sd_bus_message_get_error(m);
        Wait *w = userdata;

        if (e && !sd_bus_error_has_name(e, SYSTEMD_NAME ".NoSuchProcess"))
                (void) systemd_failed(w->unit->name, e, -EIO);
        return 0;
}

static int on_interrupt(sd_event_source *s, const struct signalfd_siginfo *si, void *userdata) {
        Wait *w = userdata;

        (void) sd_bus_call_method_async(w->unit->bus, NULL, SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_MANAGER, "KillUnit",
                        on_sent, w, "ssi", w->unit->name, "all", (int32_t) si->ssi_signo);
        return 0;
}

static int on_terminate(sd_event_source *s, const struct signalfd_siginfo *si, void *userdata) {
        Wait *w = userdata;

        if (w->stopping)
                return wait_end(w, (int) (128 + si->ssi_signo));
        w->stopping = true;
        (void) sd_bus_call_method_async(w->unit->bus, NULL, SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_MANAGER, "StopUnit",
                        on_sent, w, "ss", w->unit->name, "replace");
        return 0;
}

static int watch(Wait *w) {
        TransientUnit *u = w->unit;

        int r = sd_bus_attach_event(u->bus, w->event, SD_EVENT_PRIORITY_NORMAL);
        if (r >= 0)
                r = sd_bus_match_signal(u->bus, NULL, SYSTEMD_NAME, u->path, BUS_PROPERTIES, "PropertiesChanged",
                                on_changed, w);
        if (r >= 0)
                r = sd_bus_match_signal(
                                u->bus, NULL, BUS_LOCAL, BUS_LOCAL_PATH, BUS_LOCAL, "Disconnected", on_disconnected, w);
        if (r >= 0)
                r = sd_event_add_signal(w->event, NULL, SIGINT, on_interrupt, w);
        if (r >= 0)
                r = sd_event_add_signal(w->event, NULL, SIGTERM, on_terminate, w);
        if (r >= 0)
                r = sd_event_add_signal(w->event, NULL, SIGHUP, on_terminate, w);
        return r;
}

/* --- the end --- */

static void tell_end(TransientUnit *u, const char *result, int32_t code, int32_t status) {
        uint64_t begin = 0, end = 0, cpu = UINT64_MAX;
        char text[FORMAT_NSEC_MAX];

        fprintf(stderr, "Finished with result: %s\n", result);
        if (code == CLD_EXITED)
                fprintf(stderr, "Main process exited with status %" PRIi32 "\n", status);
        else if (code != 0)
                fprintf(stderr, "Main process was killed by SIG%s\n", sigabbrev_np(status) ?: "?");
        (void) sd_bus_get_property_trivial(u->bus, SYSTEMD_NAME, u->path, SYSTEMD_UNIT,
                        "InactiveExitTimestampMonotonic", NULL, 't', &begin);
        (void) sd_bus_get_property_trivial(u->bus, SYSTEMD_NAME, u->path, SYSTEMD_UNIT,
                        "InactiveEnterTimestampMonotonic", NULL, 't', &end);
        (void) sd_bus_get_property_trivial(
                        u->bus, SYSTEMD_NAME, u->path, SYSTEMD_SERVICE, "CPUUsageNSec", NULL, 't', &cpu);
        if (end > begin && begin > 0)
                fprintf(stderr, "Run time: %s\n", format_nsec(text, sizeof(text), (end - begin) * NSEC_PER_USEC));
        if (cpu != UINT64_MAX)
                fprintf(stderr, "CPU time: %s\n", format_nsec(text, sizeof(text), cpu / NSEC_PER_USEC * NSEC_PER_USEC));
}

static int exit_status_of(TransientUnit *u) {
        _cleanup_free_ char *result = NULL;
        int32_t code = 0, status = 0;

        int r = get_string(u, SYSTEMD_SERVICE, "Result", &result);
        if (r >= 0)
                r = sd_bus_get_property_trivial(
                                u->bus, SYSTEMD_NAME, u->path, SYSTEMD_SERVICE, "ExecMainCode", NULL, 'i', &code);
        if (r >= 0)
                r = sd_bus_get_property_trivial(
                                u->bus, SYSTEMD_NAME, u->path, SYSTEMD_SERVICE, "ExecMainStatus", NULL, 'i', &status);
        if (r < 0)
                return (void) ctl_fail("%s: what came of it is not known: %s", u->name, strerror(-r)), EXIT_OURS;
        if (u->ctl->run.wait && !u->ctl->run.quiet)
                tell_end(u, result, code, status);
        if (streq(result, "success"))
                return 0;
        if (streq(result, "exit-code") && code == CLD_EXITED && status != 0)
                return status;
        if (streq(result, "signal") || streq(result, "core-dump"))
                return EXIT_BY_SIGNAL;
        return (void) ctl_fail("%s: %s", u->name, result), EXIT_OURS;
}

int transient_service_wait(TransientUnit *u, sd_event *event, PtyForward *pty) {
        Wait w = {.unit = u, .event = event};

        int r = watch(&w);
        if (r < 0)
                return (void) ctl_fail("%s: cannot wait for it: %s", u->name, strerror(-r)), EXIT_OURS;
        /* The unit may have ended before we subscribed. */
        if (has_ended(u))
                (void) wait_end(&w, 0);
        while (!w.done && !u->left) {
                r = sd_event_run(event, UINT64_MAX);
                if (r < 0)
                        (void) wait_end(&w, r);
        }
        (void) sd_bus_detach_event(u->bus);
        if (pty)
                pty_forward_finish(pty);
        if (u->left) {
                fprintf(stderr, "Disconnected from %s\n", u->name);
                return 0;
        }
        if (w.result < 0)
                return (void) ctl_fail("%s: lost the connection to systemd, it goes on: %s", u->name,
                                       strerror(-w.result)),
                       EXIT_OURS;
        return w.result > 0 ? w.result : exit_status_of(u);
}
