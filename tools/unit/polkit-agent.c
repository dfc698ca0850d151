/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Runs polkit's agent, which asks for passwords on this terminal
 */

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "common/macro.h"
#include "tools/unit/polkit-agent.h"

#define AGENT "pkttyagent"

static pid_t agent_pid;

bool polkit_agent_is_useful(void) {
        return geteuid() != 0 && isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

/* The agent writes to the terminal, whatever our output is. */
_noreturn_ static void run_agent(pid_t parent, int notify_fd) {
        char number[16];
        sigset_t none;

        (void) sigemptyset(&none);
        (void) sigprocmask(SIG_SETMASK, &none, NULL);
        (void) snprintf(number, sizeof(number), "%d", notify_fd);
        if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
                _exit(EXIT_FAILURE);
        (void) execlp(AGENT, AGENT, "--notify-fd", number, "--fallback", (char *) NULL);
        _exit(EXIT_FAILURE);
}

void polkit_agent_open(void) {
        _cleanup_close_ int ours = -EBADF, its = -EBADF;
        pid_t parent = getpid();
        int fds[2];

        if (agent_pid > 0 || pipe2(fds, O_CLOEXEC) < 0)
                return;
        ours = fds[0];
        its = fcntl(fds[1], F_DUPFD, 3); /* without O_CLOEXEC, because the agent inherits it */
        (void) close(fds[1]);
        if (its < 0)
                return;
        agent_pid = fork();
        if (agent_pid == 0)
                run_agent(parent, its);
        safe_close(TAKE_FD(its));
        if (agent_pid < 0)
                return;
        /* The agent closes its end when it is registered, or ends. */
        struct pollfd p = {.fd = ours};
        while (poll(&p, 1, -1) < 0 && errno == EINTR)
                ;
}

void polkit_agent_close(void) {
        if (agent_pid <= 0)
                return;
        (void) kill(agent_pid, SIGTERM);
        (void) kill(agent_pid, SIGCONT);
        while (waitpid(agent_pid, NULL, 0) < 0 && errno == EINTR)
                ;
        agent_pid = 0;
}
