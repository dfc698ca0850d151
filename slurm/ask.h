/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Ask: asks Slurm's controller for a job's partition and QOS, by the program xsched-slurm
 *
 * The plugin runs in slurmstepd, which starts the job: a call of Slurm's library would block it for as long as the
 * site's timeouts, when the controller does not answer. A separate program can be abandoned.
 */

#include <stddef.h>
#include <stdint.h>

#define ASK_NAME_MAX 256U

typedef struct Answer {
        char partition[ASK_NAME_MAX];
        char qos[ASK_NAME_MAX]; /* empty: none */
} Answer;

/* Waits for `timeout_ns` at most: -ETIMEDOUT. -ENODATA: the controller did not answer the question. */
int ask_job(const char *program, uint32_t job, uint64_t timeout_ns, Answer *ret);

/* Parses "partition=NAME\nqos=NAME\n", as the program prints it. Pure. */
int answer_parse(const char *text, Answer *ret);
