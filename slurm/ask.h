/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Asks xsched-slurm, a program of its own, what the controller knows of a job
 *
 * The plugin is in slurmstepd, whose job is to start somebody's job: a call of Slurm's library waits for a controller
 * that does not answer as long as the site's timeouts say. A program can be given up.
 */

#include <stddef.h>
#include <stdint.h>

#define ASK_NAME_MAX 256U

typedef struct Answer {
        char partition[ASK_NAME_MAX];
        char qos[ASK_NAME_MAX]; /* empty: none */
} Answer;

/* Waits at most for this long; -ETIMEDOUT. -ENODATA when the controller did not tell. */
int ask_job(const char *program, uint32_t job, uint64_t timeout_ns, Answer *ret);

/* "partition=NAME\nqos=NAME\n", as the program prints it. Pure. */
int answer_parse(const char *text, Answer *ret);
