/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Sessions
 *
 * The whole demo runs inside of the session, also its phases without xsched: their processes get an environment without
 * xsched's variables, and an xschedd without clients sleeps.
 */

#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>

#include "tools/demo/session.h"

/* Set for the demo inside of the session: the configuration's descriptor, to be closed. */
#define INSIDE_VARIABLE "XSCHED_DEMO_SESSION"

static bool is_program(const char *path) {
        return access(path, X_OK) == 0;
}

static char *beside_us(const char *up, const char *name) {
        _cleanup_free_ char *self = strdup(demo_self());
        char *path;

        if (!self || asprintf(&path, "%s/%s%s", dirname(self), up, name) < 0)
                return NULL;
        return path;
}

static char *in_path(const char *name) {
        _cleanup_free_ char *list = strdup(getenv("PATH") ?: "/usr/bin:/bin");
        char *state = NULL;

        for (char *dir = list ? strtok_r(list, ":", &state) : NULL; dir; dir = strtok_r(NULL, ":", &state)) {
                char *path;

                if (asprintf(&path, "%s/%s", dir, name) < 0)
                        return NULL;
                if (is_program(path))
                        return path;
                free(path);
        }
        return NULL;
}

int find_program(const char *name, const char *variable, char **ret) {
        const char *named = variable ? getenv(variable) : NULL;
        static const char *const ups[] = {"", "../"};

        if (!isempty(named)) {
                if (!is_program(named))
                        return demo_error(-ENOENT, "%s=%s: %s", variable, named, strerror(errno));
                *ret = strdup(named);
                return *ret ? 0 : demo_error(-ENOMEM, "out of memory");
        }
        for (size_t i = 0; i < ELEMENTSOF(ups); i++) {
                _cleanup_free_ char *path = beside_us(ups[i], name);

                if (path && is_program(path)) {
                        *ret = TAKE_PTR(path);
                        return 0;
                }
        }
        *ret = in_path(name);
        if (*ret)
                return 0;
        return demo_error(-ENOENT, "cannot find %s: neither beside %s nor in PATH%s%s", name, demo_self(),
                        variable ? "; its place can be given by " : "", strempty(variable));
}

/* Makes the configuration in memory, so that there is no file to remove. Its name is that of the descriptor, which
 * xschedd inherits. It has the defaults and the settings that were asked for, whatever is configured on this machine;
 * and xschedd is quiet, because its log would appear between our lines. */
static int make_config(const Options *o, int *ret_fd) {
        _cleanup_close_ int fd = memfd_create("xsched-demo.conf", 0);
        bool good = fd >= 0 && dprintf(fd, "[Log]\nLevel=warning\n[Scheduler]\n") >= 0;

        for (size_t i = 0; i < o->n_settings; i++)
                good = good && dprintf(fd, "%s\n", o->settings[i]) >= 0;
        if (!good)
                return demo_error(negative_errno(), "cannot write the configuration of xschedd");
        *ret_fd = TAKE_FD(fd);
        return 0;
}

int session_enter(int argc, char *argv[], const Options *o) {
        _cleanup_free_ char *session = NULL, *bus = NULL;
        _cleanup_close_ int config_fd = -EBADF;
        char policy[64], config[64], fd_name[16];
        size_t n = 0;

        const char *inside = getenv(INSIDE_VARIABLE);
        if (inside) {
                safe_close(atoi(inside));
                (void) unsetenv(INSIDE_VARIABLE);
                return 0;
        }
        if (o->system || !options_has_phase(o, PHASE_XSCHED))
                return 0;

        int r = find_program("xsched-session", "XSCHED_SESSION", &session);
        if (r < 0)
                return r;
        r = find_program("dbus-daemon", NULL, &bus);
        if (r < 0)
                return r;
        r = make_config(o, &config_fd);
        if (r < 0)
                return r;

        _cleanup_free_ const char **args = calloc((size_t) argc + 8, sizeof(char *));
        if (!args)
                return demo_error(-ENOMEM, "out of memory");
        (void) snprintf(policy, sizeof(policy), "--policy=%s", strempty(o->policy));
        (void) snprintf(config, sizeof(config), "--config=/proc/self/fd/%d", config_fd);
        (void) snprintf(fd_name, sizeof(fd_name), "%d", config_fd);

        args[n++] = session;
        args[n++] = "--shim=none";
        if (o->policy)
                args[n++] = policy;
        args[n++] = config;
        args[n++] = "--";
        args[n++] = demo_self();
        for (int i = 1; i < argc; i++)
                args[n++] = argv[i];

        (void) setenv(INSIDE_VARIABLE, fd_name, 1);
        (void) execv(session, (char *const *) (uintptr_t) args);
        r = negative_errno();
        return demo_error(r, "cannot run %s: %s", session, strerror(-r));
}
