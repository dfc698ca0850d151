/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * run: a command in a unit of its own, with the shim in its environment
 *
 * Three ways, of which one is taken:
 *
 *   scope     the usual one: systemd puts this process into a unit, and the command takes the process's place. Its
 *             parent, its terminal, its environment, its signals and its exit status are what they would be without us;
 *   service   when the options ask for it: systemd starts the command, we wait, or not;
 *   job       where there is no systemd to ask, or the scheduler is on a bus of its own: a group that exists for the
 *             scheduler only. The command takes our place, as in a scope, and a token in the environment admits what it
 *             starts.
 *
 * Without a scheduler the command runs, too, after one message: no job may depend on being scheduled.
 */

#include <ctype.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>

#include "common/bus-names.h"
#include "common/parse-util.h"
#include "tools/shared/ctl-bus.h"
#include "tools/shared/exit-status.h"
#include "tools/shared/shim-env.h"
#include "tools/unit/polkit-agent.h"
#include "tools/unit/transient-unit.h"
#include "tools/unit/transient-wait.h"
#include "tools/xschedctl/xschedctl-set.h"
#include "tools/xschedctl/xschedctl.h"
#include "xschedctl-run-options.h"

/* --- the scheduler --- */

/* Makes a valid name for the job of the command's name: a command must not fail because of its name. */
static const char *default_job_name(const char *command, char *buf, size_t size) {
        const char *slash = strrchr(command, '/'), *s = slash ? slash + 1 : command;
        size_t n = 0;

        for (; *s && n < size - 1; s++)
                buf[n++] = (char) (isalnum((unsigned char) *s) || strchr("._:@+-", *s) ? *s : '_');
        buf[n] = '\0';
        return buf;
}

static int new_job_call(Ctl *c, const char *name, const ProcessId *p, uint64_t flags, sd_bus_message **ret) {
        int r;

        r = ctl_new_call(c, NULL, NULL, "CreateJob", ret);
        if (r >= 0)
                r = sd_bus_message_append_basic(*ret, 's', name);
        if (r >= 0)
                r = sd_bus_message_open_container(*ret, 'a', "{sv}");
        if (r < 0)
                return ctl_fail("cannot make a job: %s", strerror(-r));
        for (size_t i = 0; i < c->run.n_settings; i++) {
                r = settings_append(*ret, OBJECT_GROUP, c->run.settings[i]);
                if (r != 0)
                        return r;
        }
        r = sd_bus_message_close_container(*ret);
        if (r >= 0)
                r = sd_bus_message_append(*ret, "utt", p ? (uint32_t) p->pid : 0U, p ? p->start_time : 0, flags);
        return r < 0 ? ctl_fail("cannot make a job: %s", strerror(-r)) : 0;
}

static int tell_unscheduled(const Ctl *c, const char *command) {
        char buf[256];

        fprintf(stderr, "xschedctl: xschedd is not running on %s: %s runs unscheduled\n",
                        ctl_bus_describe(c, buf, sizeof(buf)), command);
        return 0;
}

/* Returns an exit status; 0 also when there is no service, or when the process (NULL: ours) has ended and needs nothing
 * more. `ret_token` may be NULL. */
static int create_job(Ctl *c, const char *command, const ProcessId *p, uint64_t flags, char **ret_token) {
        const char *token;
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *m = NULL, *reply = NULL;
        char name[64];
        int r;

        r = ctl_open_bus(c);
        if (r < 0)
                return tell_unscheduled(c, command);
        r = new_job_call(c, c->run.name ?: default_job_name(command, name, sizeof(name)), p, flags, &m);
        if (r != 0)
                return r;
        r = ctl_call(c, m, &error, &reply);
        if (r < 0 && error_is_not_running(&error, r))
                return tell_unscheduled(c, command);
        if (r < 0 && p && !process_id_is_alive(p))
                return 0;
        if (r < 0)
                return ctl_call_failed(c, &error, r, "run");
        if (!ret_token)
                return 0;
        r = sd_bus_message_read_basic(reply, 's', &token);
        if (r < 0 || !(*ret_token = strdup(token)))
                return ctl_fail("cannot make a job: %s", strerror(r < 0 ? -r : ENOMEM));
        return 0;
}

/* Makes the settings hold for our unit while we are in it. */
static int set_for_our_cgroup(Ctl *c, const char *command) {
        if (c->run.n_settings > 0)
                return create_job(c, command, NULL, JOB_FLAG_CGROUP, NULL);
        if (ctl_open_bus(c) < 0 || !bus_has_owner(c->bus, BUS_NAME))
                return tell_unscheduled(c, command);
        return 0;
}

/* --- the environment --- */

static int set_shim_environment(Ctl *c) {
        int mode = c->run.shim ? shim_mode_from_string(c->run.shim) : SHIM_LAYER, r;
        const char *address;

        if (mode < 0)
                return ctl_fail("--shim= is one of layer, preload, none");
        /* The command's shim uses the same connection as we did; it finds the system's bus by itself. */
        if (c->system_bus)
                (void) unsetenv("XSCHED_BUS_ADDRESS");
        if (c->bus_address && setenv("XSCHED_BUS_ADDRESS", c->bus_address, 1) < 0)
                return ctl_fail("out of memory");
        if (c->user_bus && ctl_open_bus(c) >= 0 && !c->bus_is_system_after_all) {
                r = sd_bus_get_address(c->bus, &address);
                if (r < 0 || setenv("XSCHED_BUS_ADDRESS", address, 1) < 0)
                        return ctl_fail("cannot name the user bus in the environment");
        }
        r = shim_setenv((ShimMode) mode);
        return r < 0 ? ctl_fail("cannot name the shim in the environment: %s", strerror(-r)) : 0;
}

static int set_environment(const RunOptions *o) {
        for (size_t i = 0; i < o->n_environment; i++)
                if (putenv(o->environment[i]) != 0)
                        return ctl_fail("out of memory");
        return 0;
}

static int cannot_run(const char *command) {
        int r = errno == ENOENT ? EXIT_NO_COMMAND : EXIT_CANNOT_EXEC;

        ctl_fail("cannot run %s: %m", command);
        return r;
}

/* --- as another user: what systemd does for a service, and we for a scope --- */

static int parse_id(const char *text, uint32_t *ret) {
        uint64_t id;

        int r = parse_uint64(text, 0, UINT32_MAX - 1, &id);
        if (r >= 0)
                *ret = (uint32_t) id;
        return r;
}

static int set_user_environment(const struct passwd *p) {
        return setenv("HOME", p->pw_dir, 1) < 0 || setenv("USER", p->pw_name, 1) < 0 ||
                                        setenv("LOGNAME", p->pw_name, 1) < 0 || setenv("SHELL", p->pw_shell, 1) < 0
                        ? -ENOMEM
                        : 0;
}

static int become(const RunOptions *o) {
        const struct passwd *p = NULL;
        const struct group *g = NULL;
        uid_t uid = getuid();
        gid_t gid = getgid();

        if (o->uid) {
                p = parse_id(o->uid, &uid) >= 0 ? getpwuid(uid) : getpwnam(o->uid);
                if (!p)
                        return ctl_fail("--uid=%s: no such user", o->uid);
                uid = p->pw_uid;
                gid = p->pw_gid;
        }
        if (o->gid && parse_id(o->gid, &gid) < 0) {
                g = getgrnam(o->gid);
                if (!g)
                        return ctl_fail("--gid=%s: no such group", o->gid);
                gid = g->gr_gid;
        }
        if (p && initgroups(p->pw_name, gid) < 0)
                return ctl_fail("--uid=%s: %m", o->uid);
        if (o->gid && setresgid(gid, gid, gid) < 0)
                return ctl_fail("--gid=%s: %m", o->gid);
        if (p && (setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0 || set_user_environment(p) < 0))
                return ctl_fail("--uid=%s: %m", o->uid);
        return 0;
}

/* --- the three ways --- */

static int take_our_place(Ctl *c, char *argv[]) {
        const RunOptions *o = &c->run;

        if (set_environment(o) != 0 || become(o) != 0)
                return EXIT_OURS;
        if (o->working_directory && chdir(o->working_directory) < 0)
                return (void) ctl_fail("--working-directory=%s: %m", o->working_directory), EXIT_OURS;
        polkit_agent_close();
        /* exec closes the descriptors of sd-bus, and all others of ours. */
        execvp(argv[0], argv);
        return cannot_run(argv[0]);
}

static int run_job(Ctl *c, char *argv[]) {
        _cleanup_free_ char *token = NULL;

        if (create_job(c, argv[0], NULL, 0, &token) != 0)
                return EXIT_OURS;
        if (token && setenv("XSCHED_JOB", token, 1) < 0)
                return (void) ctl_fail("out of memory"), EXIT_OURS;
        return take_our_place(c, argv);
}

static void tell_unit(const TransientUnit *u) {
        const RunOptions *o = &u->ctl->run;

        /* A scope is not announced: nothing of it is visible but the command. */
        if (o->verbose || (!u->scope && !o->quiet))
                fprintf(stderr, "Running as unit: %s\n", u->name);
}

static int run_scope(TransientUnit *u, char *argv[]) {
        if (transient_scope_start(u, argv) != 0)
                return EXIT_OURS;
        tell_unit(u);
        /* The command does not belong to a job of ours: its group is the scope. */
        (void) unsetenv("XSCHED_JOB");
        if (set_for_our_cgroup(u->ctl, argv[0]) != 0)
                return EXIT_OURS;
        return take_our_place(u->ctl, argv);
}

/* Finds the command as execvp() would. Returns 0 or an exit status. */
static int find_executable(const char *command, char **ret) {
        const char *path = getenv("PATH") ?: "/usr/local/bin:/usr/bin:/bin";
        _cleanup_free_ char *found = NULL;
        int failed = ENOENT;

        if (strchr(command, '/')) {
                _cleanup_free_ char *here = command[0] == '/' ? strdup("") : getcwd(NULL, 0);

                if (!here || access(command, X_OK) < 0)
                        return cannot_run(command);
                if (asprintf(&found, "%s%s%s", here, *here ? "/" : "", command) < 0) {
                        found = NULL;
                        return (void) ctl_fail("out of memory"), EXIT_OURS;
                }
                *ret = TAKE_PTR(found);
                return 0;
        }
        while (*path) {
                size_t n = strcspn(path, ":");

                free(found);
                if (asprintf(&found, "%.*s/%s", (int) n, path, command) < 0) {
                        found = NULL;
                        return (void) ctl_fail("out of memory"), EXIT_OURS;
                }
                if (found[0] == '/' && access(found, X_OK) == 0) {
                        *ret = TAKE_PTR(found);
                        return 0;
                }
                if (errno == EACCES)
                        failed = EACCES;
                path += n + (path[n] == ':');
        }
        errno = failed;
        return cannot_run(command);
}

/* The system's scheduler reads LogExtraFields= of the system's units. It does not read a user's units, whose owner may
 * write there anything. */
static int set_for_service(TransientUnit *u, const char *command) {
        ProcessId p = {};
        int r;

        if (u->ctl->run.n_settings == 0 || (!u->user && !ctl_bus_address(u->ctl)))
                return 0;
        r = transient_service_main(u, &p);
        if (r != 0 || p.pid == 0)
                return r;
        return create_job(u->ctl, command, &p, JOB_FLAG_CGROUP, NULL);
}

static int start_service(TransientUnit *u, char *argv[], PtyForward *pty) {
        _cleanup_free_ char *executable = NULL;
        int r;

        r = find_executable(argv[0], &executable);
        if (r != 0)
                return r;
        /* Asks the service whether the settings are allowed and make sense, because systemd does not know. */
        if (u->ctl->run.n_settings > 0)
                r = create_job(u->ctl, argv[0], NULL, JOB_FLAG_CHECK, NULL);
        else
                r = set_for_our_cgroup(u->ctl, argv[0]);
        if (r == 0)
                r = transient_service_start(u, executable, argv, pty);
        if (r == 0) {
                tell_unit(u);
                r = set_for_service(u, argv[0]);
        }
        return r == 0 ? 0 : EXIT_OURS;
}

static void leave(void *unit) {
        TransientUnit *u = unit;

        u->left = true;
}

static int run_service(TransientUnit *u, char *argv[]) {
        _cleanup_(sd_event_unrefp)
        sd_event *event = NULL;
        _cleanup_(pty_forward_freep)
        PtyForward *pty = NULL;
        RunOptions *o = &u->ctl->run;
        sigset_t set;
        int r;

        /* With both options: a terminal if both ends are one, otherwise the pipe. */
        if (o->pty && o->pipe)
                *(isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) ? &o->pipe : &o->pty) = false;
        if (!o->wait && !o->pipe && !o->pty)
                return start_service(u, argv, NULL);

        (void) sigemptyset(&set);
        (void) sigaddset(&set, SIGINT);
        (void) sigaddset(&set, SIGTERM);
        (void) sigaddset(&set, SIGHUP);
        (void) sigaddset(&set, SIGWINCH);
        if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
                return (void) ctl_fail("cannot block signals: %m"), EXIT_OURS;
        r = sd_event_new(&event);
        if (r >= 0 && o->pty)
                r = pty_forward_new(event, leave, u, &pty);
        if (r < 0)
                return (void) ctl_fail("cannot make a terminal: %s", strerror(-r)), EXIT_OURS;
        r = start_service(u, argv, pty);
        polkit_agent_close();
        if (r != 0)
                return r;
        if (pty) {
                if (!o->quiet && isatty(STDIN_FILENO))
                        fputs("Press ^] three times within a second to disconnect\n", stderr);
                r = pty_forward_start(pty);
                if (r < 0)
                        return (void) ctl_fail("cannot show the terminal: %s", strerror(-r)), EXIT_OURS;
        }
        return transient_service_wait(u, event, pty);
}

/* --- which way --- */

static bool wants_service(const RunOptions *o) {
        size_t n = o->unit ? strlen(o->unit) : 0;

        return o->service || o->wait || o->pipe || o->pty || (n > 8 && streq(o->unit + n - 8, ".service"));
}

/* Whether there is an option that needs a unit. */
static bool wants_unit(const Ctl *c) {
        const RunOptions *o = &c->run;

        return wants_service(o) || o->scope || o->unit || o->slice || o->description || o->collect ||
                        c->n_properties > 0;
}

static int run_without_unit(Ctl *c, int reason, char *argv[]) {
        if (wants_unit(c))
                return (void) ctl_fail("cannot make a unit for %s: %s", argv[0],
                                       reason == -EOPNOTSUPP ? "there is no systemd" : strerror(-reason)),
                       EXIT_OURS;
        if (c->run.verbose)
                fprintf(stderr, "Running as a job, %s\n",
                                ctl_bus_address(c) ? "the scheduler is on a bus of its own" : "there is no systemd");
        return run_job(c, argv);
}

int verb_run(Ctl *c, int argc, char *argv[]) {
        _cleanup_(transient_unit_done)
        TransientUnit u = {};
        bool service = wants_service(&c->run);
        int r;

        if (c->run.scope && service)
                return (void) ctl_fail("--scope: the others are options of a service"), EXIT_OURS;
        if (set_shim_environment(c) != 0)
                return EXIT_OURS;
        if (ctl_bus_address(c) && !wants_unit(c))
                return run_without_unit(c, 0, argv);
        r = transient_unit_open(c, &u);
        if (r < 0)
                return run_without_unit(c, r, argv);
        u.scope = !service;
        if (transient_unit_set_name(&u, argv[0]) != 0)
                return EXIT_OURS;
        return u.scope ? run_scope(&u, argv) : run_service(&u, argv);
}
