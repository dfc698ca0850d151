/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Makes a transient unit
 */

#include <ctype.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/random.h>

#include "common/parse-util.h"
#include "tools/shared/ctl-bus.h"
#include "tools/unit/transient-unit.h"
#include "tools/unit/unit-property.h"

#define DESCRIPTION_MAX 256U

void transient_unit_done(TransientUnit *u) {
        sd_bus_flush_close_unref(u->bus);
        free(u->name);
        free(u->path);
        *u = (TransientUnit){};
}

int transient_unit_open(Ctl *c, TransientUnit *ret) {
        bool user = c->user_bus || (!c->system_bus && geteuid() != 0);
        sd_bus *bus = NULL;

        int r = systemd_open(c, user, &bus);
        if (r < 0)
                return r;
        *ret = (TransientUnit){.ctl = c, .bus = bus, .user = user};
        return 0;
}

/* --- names --- */

static const char *suffix_of(const TransientUnit *u) {
        return u->scope ? "scope" : "service";
}

/* Makes a name like "run-train-7f3a09c1", of the command's name and a random number. */
static int make_up_name(TransientUnit *u, const char *base) {
        char clean[64] = "";
        uint32_t number;

        if (getrandom(&number, sizeof(number), 0) != (ssize_t) sizeof(number))
                return -EIO;
        for (size_t i = 0; base[i] && i < sizeof(clean) - 1; i++)
                clean[i] = (char) (isalnum((unsigned char) base[i]) || strchr("._-", base[i]) ? base[i] : '_');
        return asprintf(&u->name, "run-%s-%08" PRIx32 ".%s", clean, number, suffix_of(u)) < 0 ? -ENOMEM : 0;
}

static bool has_suffix(const char *name, const char *suffix) {
        const char *dot = strrchr(name, '.');

        return dot && streq(dot + 1, suffix);
}

int transient_unit_set_name(TransientUnit *u, const char *command) {
        const RunOptions *o = &u->ctl->run;
        const char *slash = strrchr(command, '/');
        int r;

        if (!o->unit)
                r = make_up_name(u, o->name ?: slash ? slash + 1 : command);
        else if (has_suffix(o->unit, u->scope ? "service" : "scope"))
                return ctl_fail("--unit=%s: this is a %s", o->unit, suffix_of(u));
        else if (has_suffix(o->unit, suffix_of(u)))
                r = (u->name = strdup(o->unit)) ? 0 : -ENOMEM;
        else
                r = asprintf(&u->name, "%s.%s", o->unit, suffix_of(u)) < 0 ? -ENOMEM : 0;
        if (r >= 0)
                r = sd_bus_path_encode(SYSTEMD_PATH "/unit", u->name, &u->path);
        return r < 0 ? ctl_fail("cannot name a unit: %s", strerror(-r)) : 0;
}

/* --- properties of all units --- */

static int append_description(TransientUnit *u, sd_bus_message *m, char *argv[]) {
        char text[DESCRIPTION_MAX] = "";
        size_t n = 0;

        if (u->ctl->run.description)
                return sd_bus_message_append(m, "(sv)", "Description", "s", u->ctl->run.description);
        for (char **s = argv; *s && n < sizeof(text); s++)
                n += (size_t) snprintf(text + n, sizeof(text) - n, "%s%s", n > 0 ? " " : "", *s);
        /* A command may have any bytes, a description may not. */
        return sd_bus_message_append(m, "(sv)", "Description", "s", string_is_printable(text) ? text : u->name);
}

static int append_slice(const TransientUnit *u, sd_bus_message *m) {
        const char *slice = u->ctl->run.slice;
        _cleanup_free_ char *name = NULL;

        if (isempty(slice))
                return 0;
        if (asprintf(&name, "%s%s", slice, has_suffix(slice, "slice") ? "" : ".slice") < 0)
                return -ENOMEM;
        return sd_bus_message_append(m, "(sv)", "Slice", "s", name);
}

/* Properties of --property= come last, and win. Returns an exit status. */
static int append_given(TransientUnit *u, sd_bus_message *m) {
        _cleanup_(unit_properties_done)
        UnitProperties p = {};
        int r = 0;

        for (size_t i = 0; r == 0 && i < u->ctl->n_properties; i++)
                r = unit_property_append(&p, u->bus, suffix_of(u), m, u->ctl->properties[i]);
        return r;
}

/* Begins the call, up to the properties of its kind of unit. */
static int begin(TransientUnit *u, char *argv[], sd_bus_message **ret) {
        int r = sd_bus_message_new_method_call(
                        u->bus, ret, SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_MANAGER, "StartTransientUnit");
        if (r >= 0)
                r = sd_bus_message_set_allow_interactive_authorization(*ret, u->ctl->interactive);
        if (r >= 0)
                r = sd_bus_message_append(*ret, "ss", u->name, "fail");
        if (r >= 0)
                r = sd_bus_message_open_container(*ret, 'a', "(sv)");
        if (r >= 0)
                r = append_description(u, *ret, argv);
        if (r >= 0)
                r = append_slice(u, *ret);
        if (r >= 0 && u->ctl->run.collect)
                r = sd_bus_message_append(*ret, "(sv)", "CollectMode", "s", "inactive-or-failed");
        return r;
}

/* --- the start --- */

typedef struct Start {
        const char *unit;
        char result[32];
} Start;

static int on_job_removed(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        const char *job, *unit, *result;
        Start *s = userdata;
        uint32_t id;

        if (sd_bus_message_read(m, "uoss", &id, &job, &unit, &result) >= 0 && streq(unit, s->unit))
                (void) snprintf(s->result, sizeof(s->result), "%s", result);
        return 0;
}

/* Subscribes to signals of units; a manager accepts a second subscription. */
static int subscribe(TransientUnit *u, Start *s, sd_bus_slot **ret) {
        int r = sd_bus_match_signal(
                        u->bus, ret, SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_MANAGER, "JobRemoved", on_job_removed, s);
        if (r >= 0)
                r = sd_bus_call_method(
                                u->bus, SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_MANAGER, "Subscribe", NULL, NULL, NULL);
        return r;
}

/* Exit statuses of systemd's child when it could not become the command. */
#define EXIT_SYSTEMD_FIRST 200
#define EXIT_SYSTEMD_LAST  243

/* For systemd a command that fails at once is a failed start. It ran all the same. */
static int check_failed_start(TransientUnit *u, const char *result) {
        int32_t status = 0, code = 0;

        if (!u->scope) {
                (void) sd_bus_get_property_trivial(
                                u->bus, SYSTEMD_NAME, u->path, SYSTEMD_SERVICE, "ExecMainCode", NULL, 'i', &code);
                (void) sd_bus_get_property_trivial(
                                u->bus, SYSTEMD_NAME, u->path, SYSTEMD_SERVICE, "ExecMainStatus", NULL, 'i', &status);
        }
        if (code == 0)
                return ctl_fail("%s: could not be started: %s", u->name, result);
        if (code == CLD_EXITED && status >= EXIT_SYSTEMD_FIRST && status <= EXIT_SYSTEMD_LAST)
                return ctl_fail("%s: could not be started: %s, its process ended with status %d", u->name, result,
                                status);
        return 0;
}

/* Sends the call, and waits for its job. */
static int finish(TransientUnit *u, sd_bus_message *m) {
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        _cleanup_(sd_bus_slot_unrefp)
        sd_bus_slot *slot = NULL;
        Start start = {.unit = u->name};
        int r;

        r = append_given(u, m);
        if (r != 0)
                return r;
        r = sd_bus_message_close_container(m);
        if (r >= 0)
                r = sd_bus_message_append(m, "a(sa(sv))", 0);
        if (r >= 0)
                r = subscribe(u, &start, &slot);
        if (r >= 0)
                r = sd_bus_call(u->bus, m, ctl_call_timeout(u->ctl), &error, NULL);
        while (r >= 0 && start.result[0] == '\0') {
                r = sd_bus_process(u->bus, NULL);
                if (r == 0)
                        r = sd_bus_wait(u->bus, UINT64_MAX);
        }
        if (r < 0)
                return systemd_failed(u->name, &error, r);
        return streq(start.result, "done") ? 0 : check_failed_start(u, start.result);
}

int transient_scope_start(TransientUnit *u, char *argv[]) {
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *m = NULL;

        int r = begin(u, argv, &m);
        if (r >= 0)
                r = sd_bus_message_append(m, "(sv)", "PIDs", "au", 1, (uint32_t) getpid());
        return r < 0 ? systemd_failed(u->name, NULL, r) : finish(u, m);
}

/* --- services --- */

/* systemd expands variables in a command's words, so each dollar is doubled. */
static char *escape_dollars(const char *s) {
        char *out = malloc(2 * strlen(s) + 1), *p = out;

        for (; out && *s; s++) {
                if (*s == '$')
                        *p++ = '$';
                *p++ = *s;
        }
        if (out)
                *p = '\0';
        return out;
}

static int append_command(sd_bus_message *m, const char *executable, char *argv[]) {
        int r = systemd_open_property(m, "ExecStart", "a(sasb)");

        if (r >= 0)
                r = sd_bus_message_open_container(m, 'a', "(sasb)");
        if (r >= 0)
                r = sd_bus_message_open_container(m, 'r', "sasb");
        if (r >= 0)
                r = sd_bus_message_append_basic(m, 's', executable);
        if (r >= 0)
                r = sd_bus_message_open_container(m, 'a', "s");
        for (char **s = argv; r >= 0 && *s; s++) {
                _cleanup_free_ char *word = escape_dollars(*s);

                r = word ? sd_bus_message_append_basic(m, 's', word) : -ENOMEM;
        }
        if (r >= 0)
                r = sd_bus_message_close_container(m);
        if (r >= 0)
                r = sd_bus_message_append(m, "b", 0);
        if (r >= 0)
                r = sd_bus_message_close_container(m);
        if (r >= 0)
                r = sd_bus_message_close_container(m);
        return r < 0 ? r : systemd_close_property(m);
}

/* The shim's variables from our own environment, then those that were asked for. */
static int append_environment(const TransientUnit *u, sd_bus_message *m, bool pty) {
        static const char *const ours[] = {"OPENCL_LAYERS", "LD_PRELOAD", "XSCHED_BUS_ADDRESS", "TERM"};
        const RunOptions *o = &u->ctl->run;

        int r = systemd_open_property(m, "Environment", "as");
        if (r >= 0)
                r = sd_bus_message_open_container(m, 'a', "s");
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(ours); i++) {
                const char *value = getenv(ours[i]);
                _cleanup_free_ char *assignment = NULL;

                if (isempty(value) || (streq(ours[i], "TERM") && !pty))
                        continue;
                if (asprintf(&assignment, "%s=%s", ours[i], value) < 0)
                        return -ENOMEM;
                r = sd_bus_message_append_basic(m, 's', assignment);
        }
        for (size_t i = 0; r >= 0 && i < o->n_environment; i++)
                r = sd_bus_message_append_basic(m, 's', o->environment[i]);
        if (r >= 0)
                r = sd_bus_message_close_container(m);
        return r < 0 ? r : systemd_close_property(m);
}

static int append_stdio(const TransientUnit *u, sd_bus_message *m, const PtyForward *pty) {
        static const char *const fds[] = {
                        "StandardInputFileDescriptor", "StandardOutputFileDescriptor", "StandardErrorFileDescriptor"};
        static const char *const names[] = {"StandardInput", "StandardOutput", "StandardError"};
        int r = 0;

        if (pty) {
                for (size_t i = 0; r >= 0 && i < ELEMENTSOF(names); i++)
                        r = sd_bus_message_append(m, "(sv)", names[i], "s", "tty");
                if (r >= 0)
                        r = sd_bus_message_append(m, "(sv)", "TTYPath", "s", pty_forward_path(pty));
        } else if (u->ctl->run.pipe)
                for (int i = 0; r >= 0 && i < (int) ELEMENTSOF(fds); i++)
                        r = sd_bus_message_append(m, "(sv)", fds[i], "h", i);
        return r;
}

/* "priority=5" becomes XSCHED_PRIORITY=5. */
static int append_settings(const TransientUnit *u, sd_bus_message *m) {
        const RunOptions *o = &u->ctl->run;
        int r = 0;

        for (size_t i = 0; r >= 0 && i < o->n_settings; i++) {
                _cleanup_free_ char *field = NULL;

                if (asprintf(&field, "XSCHED_%s", o->settings[i]) < 0)
                        return -ENOMEM;
                for (char *p = field; *p != '='; p++)
                        *p = (char) toupper((unsigned char) *p);
                r = systemd_append_bytes(m, "LogExtraFields", field);
        }
        return r;
}

/* What is relative is below our own working directory. A home directory ("~") and "-" before a path are systemd's. */
static int working_directory(const char *path, char **ret) {
        _cleanup_free_ char *here = NULL;

        *ret = NULL;
        if (!path || strchr("/~-", path[0])) {
                *ret = path ? strdup(path) : NULL;
                return path && !*ret ? -ENOMEM : 0;
        }
        here = getcwd(NULL, 0);
        if (!here)
                return negative_errno();
        return asprintf(ret, "%s/%s", here, path) < 0 ? -ENOMEM : 0;
}

static int append_credentials(const TransientUnit *u, sd_bus_message *m) {
        const RunOptions *o = &u->ctl->run;
        _cleanup_free_ char *directory = NULL;
        int r = working_directory(o->working_directory, &directory);
        const struct {
                const char *property, *value;
        } strings[] = {
                        {"User", o->uid},
                        {"Group", o->gid},
                        {"WorkingDirectory", directory},
        };

        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(strings); i++)
                if (strings[i].value)
                        r = sd_bus_message_append(m, "(sv)", strings[i].property, "s", strings[i].value);
        return r;
}

int transient_service_start(TransientUnit *u, const char *executable, char *argv[], const PtyForward *pty) {
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *m = NULL;

        int r = begin(u, argv, &m);
        if (r >= 0)
                r = sd_bus_message_append(m, "(sv)(sv)", "Type", "s", "exec", "AddRef", "b", 1);
        if (r >= 0)
                r = append_command(m, executable, argv);
        if (r >= 0)
                r = append_environment(u, m, pty);
        if (r >= 0)
                r = append_stdio(u, m, pty);
        if (r >= 0)
                r = append_credentials(u, m);
        if (r >= 0)
                r = append_settings(u, m);
        return r < 0 ? systemd_failed(u->name, NULL, r) : finish(u, m);
}

static int get_main_pid(TransientUnit *u, pid_t *ret) {
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        uint32_t pid;

        int r = sd_bus_get_property_trivial(
                        u->bus, SYSTEMD_NAME, u->path, SYSTEMD_SERVICE, "MainPID", &error, 'u', &pid);
        if (r < 0)
                return systemd_failed(u->name, &error, r);
        *ret = (pid_t) pid;
        return 0;
}

int transient_service_main(TransientUnit *u, ProcessId *ret) {
        pid_t pid = 0, again = 0;
        ProcessId p;

        int r = get_main_pid(u, &pid);
        if (r != 0 || pid == 0)
                return r;
        r = process_id_of(pid, &p);
        if (r < 0)
                return r == -ESRCH ? 0 : ctl_fail("%s: cannot look at its process: %s", u->name, strerror(-r));
        /* The pid was the service's when it was read if it still is: then systemd has not reaped the process. */
        r = get_main_pid(u, &again);
        if (r != 0)
                return r;
        if (again == pid)
                *ret = p;
        return 0;
}
