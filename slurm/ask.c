/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Asking xsched-slurm
 */

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>

#include "ask.h"
#include "common/macro.h"
#include "common/parse-util.h"
#include "common/time-util.h"

#define TEXT_MAX 1024U

/* Takes the value of "KEY=VALUE\n". Returns where the next line begins. */
static const char *take_line(const char *text, const char *key, char buf[static ASK_NAME_MAX]) {
        const char *value = startswith(text, key);
        size_t n = value ? strcspn(value, "\n") : 0;

        if (!value || value[n] != '\n' || n >= ASK_NAME_MAX)
                return NULL;
        memcpy(buf, value, n);
        buf[n] = '\0';
        return string_is_printable(buf) ? value + n + 1 : NULL;
}

int answer_parse(const char *text, Answer *ret) {
        Answer a;

        const char *next = take_line(text, "partition=", a.partition);
        if (next)
                next = take_line(next, "qos=", a.qos);
        if (!next || *next != '\0' || isempty(a.partition))
                return -ENODATA;
        *ret = a;
        return 0;
}

/* Starts the program with its standard output in the pipe, and without slurmstepd's other descriptors. Returns its
 * pid. */
static pid_t spawn(const char *program, const char *job, int output) {
        char *const argv[] = {(char *) program, (char *) "job", (char *) job, NULL};
        posix_spawn_file_actions_t files;
        posix_spawnattr_t attributes;
        char configuration[4096];
        char *environment[2] = {NULL};
        sigset_t none, all;
        pid_t pid = 0;

        const char *path = getenv("SLURM_CONF");
        if (path &&
                        (size_t) snprintf(configuration, sizeof(configuration), "SLURM_CONF=%s", path) <
                                        sizeof(configuration))
                environment[0] = configuration;

        int r = posix_spawn_file_actions_init(&files);
        if (r != 0)
                return -r;
        r = posix_spawnattr_init(&attributes);
        if (r != 0) {
                (void) posix_spawn_file_actions_destroy(&files);
                return -r;
        }
        (void) sigemptyset(&none);
        (void) sigfillset(&all);
        r = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        r = r ?: posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
        r = r ?: posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
        r = r ?: posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
        r = r ?: posix_spawnattr_setsigmask(&attributes, &none);
        r = r ?: posix_spawnattr_setsigdefault(&attributes, &all);
        r = r ?: posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        r = r ?: posix_spawn(&pid, program, &files, &attributes, argv, environment);
        (void) posix_spawnattr_destroy(&attributes);
        (void) posix_spawn_file_actions_destroy(&files);
        return r != 0 ? -r : pid;
}

/* Reads to the end of its output. */
static int read_until(int fd, uint64_t deadline, char buf[static TEXT_MAX]) {
        size_t n = 0;

        for (;;) {
                struct pollfd p = {.fd = fd, .events = POLLIN};
                uint64_t now = now_ns();

                if (now >= deadline)
                        return -ETIMEDOUT;
                int r = poll(&p, 1, (int) DIV_ROUND_UP(deadline - now, NSEC_PER_MSEC));
                if (r < 0 && errno != EINTR)
                        return negative_errno();
                if (r <= 0)
                        continue;
                ssize_t k = read(fd, buf + n, TEXT_MAX - 1 - n);
                if (k < 0 && errno != EINTR)
                        return negative_errno();
                if (k == 0)
                        break;
                n += k > 0 ? (size_t) k : 0;
                if (n == TEXT_MAX - 1)
                        return -E2BIG;
        }
        buf[n] = '\0';
        return 0;
}

int ask_job(const char *program, uint32_t job, uint64_t timeout_ns, Answer *ret) {
        uint64_t deadline = now_ns() + timeout_ns;
        char number[16], text[TEXT_MAX];
        int ends[2];

        (void) snprintf(number, sizeof(number), "%" PRIu32, job);
        if (pipe2(ends, O_CLOEXEC) < 0)
                return negative_errno();
        _cleanup_close_ int from = ends[0];
        pid_t pid = spawn(program, number, ends[1]);
        safe_close(ends[1]);
        if (pid < 0)
                return pid;
        int r = read_until(from, deadline, text);
        if (r < 0)
                (void) kill(pid, SIGKILL);
        /* The program has closed its end, or was killed, so this does not block. Another thread of slurmstepd may have
         * reaped it first. */
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
        return r < 0 ? r : answer_parse(text, ret);
}
