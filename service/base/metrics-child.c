/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The child that asks a GPU
 */

#include <config.h>

#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <unistd.h>

#include "metrics-child.h"

static const char *program(void) {
        return secure_getenv("XSCHED_METRICS") ?: XSCHED_LIBEXECDIR "/xsched-metrics";
}

int metrics_spawn(const char *mode, const char *device, int input, int output, pid_t *ret) {
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attributes;
        sigset_t none, all;

        (void) sigemptyset(&none);
        (void) sigfillset(&all);
        int r = posix_spawn_file_actions_init(&actions);
        if (r != 0)
                return -r;
        r = posix_spawnattr_init(&attributes);
        if (r == 0) {
                char *argv[] = {(char *) program(), (char *) (mode ?: device), mode ? (char *) device : NULL, NULL};
                r = posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
                if (r == 0 && input >= 0)
                        r = posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
                if (r == 0)
                        r = posix_spawnattr_setsigmask(&attributes, &none);
                if (r == 0)
                        r = posix_spawnattr_setsigdefault(&attributes, &all);
                if (r == 0)
                        r = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
                if (r == 0)
                        r = posix_spawn(ret, program(), &actions, &attributes, argv, environ);
                (void) posix_spawnattr_destroy(&attributes);
        }
        (void) posix_spawn_file_actions_destroy(&actions);
        return -r;
}
