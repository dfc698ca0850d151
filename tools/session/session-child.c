/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The processes of a session
 */

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "common/macro.h"
#include "tools/session/session-child.h"

const char *child_describe_end(const Child *c, char *buf, size_t n) {
        if (c->code == CLD_EXITED)
                snprintf(buf, n, "exited with status %d", c->status);
        else
                snprintf(buf, n, "was killed by SIG%s", sigabbrev_np(c->status) ?: "?");
        return buf;
}

/* In the child, between fork and exec. */
static void child_setup(const sigset_t *mask, pid_t parent, int death_signal, bool daemon) {
        (void) prctl(PR_SET_PDEATHSIG, death_signal);
        if (getppid() != parent)
                _exit(EXIT_OURS);
        (void) sigprocmask(SIG_SETMASK, mask, NULL);
        if (!daemon)
                return;

        (void) setsid();
        (void) dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
        (void) dup2(STDERR_FILENO, STDOUT_FILENO); /* standard output is the command's */
        /* Variables that a service manager has set for this process, and not for its children. */
        static const char *const foreign[] = {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS",
                        "LISTEN_PID", "LISTEN_FDNAMES", "OPENCL_LAYERS", "LD_PRELOAD", "HSA_TOOLS_LIB", "XSCHED_JOB"};
        for (size_t i = 0; i < ELEMENTSOF(foreign); i++)
                (void) unsetenv(foreign[i]);
}

int child_fork(Child *c, const sigset_t *mask, int death_signal, bool daemon) {
        pid_t parent = getpid(), pid = fork();

        if (pid < 0)
                return negative_errno();
        if (pid == 0) {
                child_setup(mask, parent, death_signal, daemon);
                return 0;
        }
        c->pid = pid;
        c->pidfd = pidfd_open(pid, 0);
        if (c->pidfd < 0) {
                int r = negative_errno();

                (void) kill(pid, SIGKILL);
                (void) waitpid(pid, NULL, 0);
                return r;
        }
        return 1;
}

void child_reap(Child *c) {
        siginfo_t si = {};

        if (waitid(P_PIDFD, (id_t) c->pidfd, &si, WEXITED | WNOHANG) < 0 || si.si_pid == 0)
                return;
        c->status = si.si_status;
        c->code = si.si_code;
        c->pidfd = safe_close(c->pidfd);
}

/* --- the keeper of the directory --- */

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw) {
        (void) remove(path);
        return 0;
}

_noreturn_ static void keeper_run(int fd) {
        char dir[64] = "/tmp/xsched-session-XXXXXX";
        const char *tmp = getenv("TMPDIR");
        int null;
        char c;

        (void) setsid();
        /* Ignores all signals and ends by the hang-up only: a signal to the whole process group must not kill the
         * process that cleans up. */
        for (int sig = 1; sig < NSIG; sig++)
                (void) signal(sig, SIG_IGN);

        /* A socket's path has 108 bytes. */
        if (tmp && tmp[0] == '/' && strlen(tmp) < sizeof(dir) - 32)
                snprintf(dir, sizeof(dir), "%s/xsched-session-XXXXXX", tmp);
        if (!mkdtemp(dir)) {
                perror("xsched-session: cannot make a temporary directory");
                _exit(1);
        }

        null = open("/dev/null", O_RDWR);
        for (int i = 0; i < 3; i++)
                (void) dup2(null, i);
        (void) dup2(fd, 3);
        (void) close_range(4, ~0U, 0);

        if (send(3, dir, strlen(dir), MSG_NOSIGNAL) >= 0)
                while (recv(3, &c, 1, 0) < 0 && errno == EINTR)
                        ;
        (void) nftw(dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
        _exit(0);
}

int keeper_start(Keeper *k, char **ret_dir) {
        char dir[64], *copy;
        int pair[2];
        ssize_t n;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return negative_errno();
        k->pid = fork();
        if (k->pid < 0)
                return negative_errno();
        if (k->pid == 0) {
                close(pair[0]);
                keeper_run(pair[1]);
        }
        close(pair[1]);
        k->fd = pair[0];

        n = recv(k->fd, dir, sizeof(dir) - 1, 0);
        if (n <= 0)
                return n < 0 ? negative_errno() : -ENOENT;
        dir[n] = '\0';
        copy = strdup(dir);
        if (!copy)
                return -ENOMEM;
        *ret_dir = copy;
        return 0;
}

void keeper_stop(Keeper *k) {
        k->fd = safe_close(k->fd);
        if (k->pid > 0)
                while (waitpid(k->pid, NULL, 0) < 0 && errno == EINTR)
                        ;
}
