/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A child process and the two pipes to it
 *
 * A child dies with us, whatever ends us: it asks the kernel for a signal at our death, and it ends itself when its
 * standard input closes (tenant.c), which reaches a grandchild, too.
 */

#include <sys/types.h>

#include "tools/demo/demo.h"

typedef enum ChildEnvironment {
        CHILD_NATIVE, /* nothing of xsched: no layer, no preload, no variables */
        CHILD_XSCHED, /* the variables that lead to the service, but no layer: `xschedctl run` adds that */
} ChildEnvironment;

typedef struct Child {
        pid_t pid;
        int input, output; /* we write, we read */
        char pending[512]; /* the beginning of a line */
        size_t n_pending;
} Child;

#define CHILD_NULL ((Child){.input = -EBADF, .output = -EBADF})

/* Starts argv[0] (a path, or a name to be found in PATH). Says why on failure. */
int child_start(Child *c, const char *const argv[], ChildEnvironment environment);

/* Closes the pipes, kills and reaps what still runs. */
void child_done(Child *c);

/* Sends a line. -EPIPE when the child is gone. */
int child_write(Child *c, const char *format, ...) _printf_(2, 3);

typedef int (*child_line_t)(const char *line, void *userdata);

/* Reads what is there, and hands over each whole line. Returns 1, 0 at the end of the output, or what failed, the
 * callback's error included. */
int child_read(Child *c, child_line_t on_line, void *userdata);

/* Waits for the end of a child that has closed its output. Returns its exit status, 128 + the signal that ended it, or
 * a negative errno. */
int child_reap(Child *c);
