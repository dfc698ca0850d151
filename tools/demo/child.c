/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Child processes
 */

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tools/demo/child.h"

/* Removes our entries from LD_PRELOAD, so that the phase without xsched has none. */
static void strip_preload(void) {
        const char *old = getenv("LD_PRELOAD");
        if (!old)
                return;

        _cleanup_free_ char *copy = strdup(old), *kept = calloc(1, strlen(old) + 2);
        if (!copy || !kept)
                _exit(127);

        char *state = NULL, *end = kept;
        for (char *entry = strtok_r(copy, ": ", &state); entry; entry = strtok_r(NULL, ": ", &state))
                if (!strstr(entry, "libxsched")) {
                        end = stpcpy(end, end > kept ? ":" : "");
                        end = stpcpy(end, entry);
                }
        if (*kept)
                (void) setenv("LD_PRELOAD", kept, 1);
        else
                (void) unsetenv("LD_PRELOAD");
}

static void strip_environment(ChildEnvironment environment) {
        (void) unsetenv("OPENCL_LAYERS");
        strip_preload();
        if (environment == CHILD_NATIVE) {
                (void) unsetenv("XSCHED_BUS_ADDRESS");
                (void) setenv("XSCHED_DISABLE", "1", 1);
        } else
                (void) unsetenv("XSCHED_DISABLE");

        /* Where PoCL is the device, the device has one worker: see work.h. */
        (void) setenv("POCL_MAX_PTHREAD_COUNT", "1", 1);
}

_noreturn_ static void child_exec(
                const char *const argv[], int input, int output, ChildEnvironment environment, pid_t parent) {
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
                _exit(127);
        if (dup2(input, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0)
                _exit(127);
        (void) signal(SIGPIPE, SIG_DFL);
        strip_environment(environment);
        (void) execvp(argv[0], (char *const *) (uintptr_t) argv);
        demo_complain("cannot start %s: %s", argv[0], strerror(errno));
        _exit(127);
}

int child_start(Child *c, const char *const argv[], ChildEnvironment environment) {
        int down[2] = {-EBADF, -EBADF}, up[2] = {-EBADF, -EBADF};
        pid_t self = getpid(), pid = -1;

        if (pipe2(down, O_CLOEXEC) >= 0 && pipe2(up, O_CLOEXEC) >= 0)
                pid = fork();
        if (pid == 0)
                child_exec(argv, down[0], up[1], environment, self);

        int r = pid < 0 ? negative_errno() : 0;
        safe_close(down[0]);
        safe_close(up[1]);
        if (r < 0) {
                safe_close(down[1]);
                safe_close(up[0]);
                return demo_error(r, "cannot start a process: %s", strerror(-r));
        }
        *c = (Child){.pid = pid, .input = down[1], .output = up[0]};
        (void) fcntl(c->output, F_SETFL, O_NONBLOCK);
        return 0;
}

void child_done(Child *c) {
        c->input = safe_close(c->input);
        c->output = safe_close(c->output);
        if (c->pid > 0) {
                (void) kill(c->pid, SIGKILL);
                (void) child_reap(c);
        }
}

int child_write(Child *c, const char *format, ...) {
        char line[128];
        va_list ap;

        va_start(ap, format);
        int n = vsnprintf(line, sizeof(line), format, ap);
        va_end(ap);
        if (n < 0 || (size_t) n >= sizeof(line))
                return -EMSGSIZE;

        /* A line is short and the pipe is empty, so it is written as a whole or not at all. */
        return write(c->input, line, (size_t) n) == n ? 0 : negative_errno();
}

int child_read(Child *c, child_line_t on_line, void *userdata) {
        for (;;) {
                ssize_t n = read(c->output, c->pending + c->n_pending, sizeof(c->pending) - 1 - c->n_pending);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return errno == EAGAIN ? 1 : negative_errno();
                if (n == 0)
                        return 0;
                c->n_pending += (size_t) n;
                c->pending[c->n_pending] = '\0';

                char *start = c->pending;
                for (char *end; (end = strchr(start, '\n')); start = end + 1) {
                        *end = '\0';
                        int r = on_line(start, userdata);
                        if (r < 0)
                                return r;
                }
                c->n_pending -= (size_t) (start - c->pending);
                memmove(c->pending, start, c->n_pending);
                if (c->n_pending == sizeof(c->pending) - 1)
                        return -EMSGSIZE;
        }
}

int child_reap(Child *c) {
        int status;

        if (c->pid <= 0)
                return -ECHILD;
        while (waitpid(c->pid, &status, 0) < 0)
                if (errno != EINTR)
                        return negative_errno();
        c->pid = 0;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
