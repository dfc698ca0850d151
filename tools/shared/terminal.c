/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The terminal: its size, its colours, the pager in front of it, and single keys
 */

#include <signal.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>

#include "tools/shared/terminal.h"

static pid_t pager_pid;
static size_t pager_width; /* of the terminal, which standard output no longer is */
static bool pager_colors;

bool colors_wanted(void) {
        const char *e = getenv("SYSTEMD_COLORS");

        if (pager_pid > 0)
                return pager_colors;
        if (!isempty(e))
                return !strchr("0nf", e[0]) && !streq(e, "off");
        if (!isempty(getenv("NO_COLOR")))
                return false;
        e = getenv("TERM");
        return isatty(STDOUT_FILENO) && e && !streq(e, "dumb");
}

size_t terminal_width(const Ctl *c) {
        struct winsize ws = {};
        const char *columns = getenv("COLUMNS");

        if (c->full)
                return 0;
        if (pager_pid > 0)
                return pager_width;
        if (!isatty(STDOUT_FILENO))
                return 0;
        if (columns && atoi(columns) > 0)
                return (size_t) atoi(columns);
        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) < 0 || ws.ws_col == 0)
                return 80;
        return ws.ws_col;
}

size_t terminal_height(void) {
        struct winsize ws = {};

        return ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) < 0 || ws.ws_row == 0 ? 24 : ws.ws_row;
}

/* NULL for none. */
static const char *pager_command(void) {
        const char *e = getenv("SYSTEMD_PAGER") ?: getenv("PAGER");

        if (!e)
                return "";
        return isempty(e) || streq(e, "cat") ? NULL : e;
}

_noreturn_ static void pager_exec(const char *command) {
        const char *less = getenv("SYSTEMD_LESS");

        (void) prctl(PR_SET_PDEATHSIG, SIGTERM);
        (void) setenv("LESS", less ?: "FRSXMK", 1);
        /* Under sudo, the pager's shell escape would be root's. */
        if (getuid() != geteuid() || getenv("SUDO_UID"))
                (void) setenv("LESSSECURE", "1", 1);
        if (!isempty(command))
                execl("/bin/sh", "sh", "-c", command, NULL);
        execlp("pager", "pager", NULL);
        execlp("less", "less", NULL);
        execlp("more", "more", NULL);
        execlp("cat", "cat", NULL);
        _exit(127);
}

void pager_open(const Ctl *c) {
        const char *command = pager_command();
        bool colors = colors_wanted();
        size_t width = terminal_width(c);
        int fds[2];

        if (!c->pager || pager_pid > 0 || !command || !isatty(STDOUT_FILENO))
                return;
        if (pipe(fds) < 0)
                return;
        fflush(stdout);
        pager_pid = fork();
        if (pager_pid == 0) {
                (void) dup2(fds[0], STDIN_FILENO);
                close(fds[0]);
                close(fds[1]);
                pager_exec(command);
        }
        if (pager_pid > 0) {
                pager_width = width;
                pager_colors = colors;
                /* Ctrl-C is for the pager; and a pager that is left early is no error. */
                (void) signal(SIGINT, SIG_IGN);
                (void) signal(SIGPIPE, SIG_IGN);
                (void) dup2(fds[1], STDOUT_FILENO);
        }
        close(fds[0]);
        close(fds[1]);
}

void pager_close(void) {
        bool lost = fflush(stdout) != 0 || ferror(stdout);

        if (pager_pid <= 0)
                return;
        /* The pager was left before it had read all: that is no error, and the rest is not printed. */
        if (lost) {
                __fpurge(stdout);
                clearerr(stdout);
        }
        /* The end of the file; nothing is printed after it. */
        (void) dup2(STDERR_FILENO, STDOUT_FILENO);
        while (waitpid(pager_pid, NULL, 0) < 0 && errno == EINTR)
                ;
        pager_pid = 0;
        (void) signal(SIGINT, SIG_DFL);
        (void) signal(SIGPIPE, SIG_DFL);
}

/* --- single keys --- */

static struct termios saved_termios;
static bool terminal_taken;

#define SCREEN_TAKE    "\033[?1049h\033[?25l"
#define SCREEN_RESTORE "\033[?25h\033[?1049l"

int terminal_take(void) {
        static bool registered = false;
        struct termios raw;

        if (terminal_taken)
                return 0;
        if (tcgetattr(STDIN_FILENO, &saved_termios) < 0)
                return negative_errno();
        if (!registered && atexit(terminal_restore) == 0)
                registered = true;
        raw = saved_termios;
        raw.c_lflag &= ~(tcflag_t) (ICANON | ECHO);
        raw.c_cc[VMIN] = 1;
        raw.c_cc[VTIME] = 0;
        if (tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw) < 0)
                return negative_errno();
        terminal_taken = true;
        fputs(SCREEN_TAKE, stdout);
        fflush(stdout);
        return 0;
}

void terminal_restore(void) {
        if (!terminal_taken)
                return;
        terminal_taken = false;
        fputs(SCREEN_RESTORE, stdout);
        fflush(stdout);
        (void) tcsetattr(STDIN_FILENO, TCSAFLUSH, &saved_termios);
}
