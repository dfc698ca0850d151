/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What a preloaded layer costs a program that has nothing to do with a GPU: system calls of /bin/true, counted by
 * ptrace
 *
 * bench-exec LIBRARY...: without, with each of them, and with all; fails when one adds more than EXEC_MORE_MAX. What it
 * has to add is what mapping any library takes: open, read, stat, the mappings of code, data and zeroes, close, and the
 * protection of what was relocated.
 */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/macro.h"

#define EXEC_MORE_MAX 8

static _noreturn_ void fail(const char *what) {
        fprintf(stderr, "%s: %s\n", what, strerror(errno));
        exit(1);
}

static _noreturn_ void run_true(const char *preload) {
        char *const argv[] = {(char *) "true", NULL};
        char variable[4096];
        char *const envp[] = {variable, NULL};

        (void) snprintf(variable, sizeof(variable), "%s%s", preload ? "LD_PRELOAD=" : "NOTHING=", strempty(preload));
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0 || raise(SIGSTOP) != 0)
                _exit(126);
        (void) execve("/bin/true", argv, envp);
        _exit(127);
}

static int wait_for(pid_t pid) {
        int status;

        if (waitpid(pid, &status, 0) != pid)
                fail("waitpid");
        return status;
}

/* Counts entries only: each call stops the process twice, except the one that ends it. */
static unsigned count_calls(const char *preload) {
        unsigned n_stops = 0;
        int status;

        pid_t pid = fork();
        if (pid < 0)
                fail("fork");
        if (pid == 0)
                run_true(preload);
        (void) wait_for(pid);
        if (ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) < 0)
                fail("ptrace");
        do {
                if (ptrace(PTRACE_SYSCALL, pid, NULL, NULL) < 0)
                        fail("ptrace");
                status = wait_for(pid);
                n_stops += WIFSTOPPED(status) && WSTOPSIG(status) == (SIGTRAP | 0x80);
        } while (WIFSTOPPED(status));
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
                fail("/bin/true");
        return (n_stops + 1) / 2;
}

static bool report(const char *what, unsigned without, unsigned with, unsigned n_libraries) {
        bool ok = with > without && with <= without + n_libraries * EXEC_MORE_MAX;

        printf("%-40s %3u system calls, %+d%s\n", what, with, (int) with - (int) without, ok ? "" : ": too many");
        return ok;
}

int main(int argc, char *argv[]) {
        unsigned without = count_calls(NULL), again = count_calls(NULL);
        char all[4096] = "";
        bool ok = true;

        if (argc < 2 || without != again || without == 0) {
                fprintf(stderr, "bench-exec LIBRARY...; %u and %u\n", without, again);
                return 1;
        }
        printf("%-40s %3u system calls\n", "/bin/true", without);
        for (int i = 1; i < argc; i++) {
                char *path = realpath(argv[i], NULL); /* for a relative one the linker would ask where it is */

                if (!path)
                        fail(argv[i]);
                ok = report(strrchr(path, '/') + 1, without, count_calls(path), 1) && ok;
                if (strlen(all) + strlen(path) + 2 > sizeof(all))
                        return 1;
                if (i > 1)
                        strcat(all, ":");
                strcat(all, path);
                free(path);
        }
        ok = report("all", without, count_calls(all), (unsigned) argc - 1) && ok;
        return !ok;
}
