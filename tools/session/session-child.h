/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The processes of a session: its children, and the keeper of its directory
 */

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "tools/shared/exit-status.h"

typedef struct Child {
        const char *name;
        pid_t pid;
        int pidfd; /* -EBADF once it has been reaped, or was never started */
        int status;
        int code; /* CLD_* */
} Child;

static inline bool child_is_alive(const Child *c) {
        return c->pidfd >= 0;
}

/* "exited with status 1", "was killed by SIGKILL" */
const char *child_describe_end(const Child *c, char *buf, size_t n);

/* fork(): 0 in the child, 1 in the parent, or a negative errno. The child dies by `death_signal` when we end, and has
 * the signal mask that is given. A daemon also gets a session of its own, no standard input, standard error for
 * standard output, and none of the environment that is meant for us or for the command. */
int child_fork(Child *c, const sigset_t *mask, int death_signal, bool daemon);

/* Reaps the child and notes how it ended, if it has ended. */
void child_reap(Child *c);

typedef struct Keeper {
        pid_t pid;
        int fd; /* its other end hangs up, and the keeper removes the directory, when we end */
} Keeper;

/* Has a directory made. 0 or a negative errno; the caller owns *ret_dir. */
int keeper_start(Keeper *k, char **ret_dir);
void keeper_stop(Keeper *k);
