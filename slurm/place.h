/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The cgroups of a job and of its step: where they are, and what is written down there
 *
 * slurmstepd has made them, .../job_N/step_M/slurm, and is in there itself when the plugin runs. They go with the job,
 * and what is written there goes with them.
 */

#include <stdbool.h>
#include <stdint.h>

/* From the text of /proc/self/cgroup: the paths of the job's cgroup and of its step's below the unified hierarchy.
 * -ENOENT where it has no such cgroup, as where Slurm uses the old hierarchies, or none. Pure. */
int place_find(const char *text, uint32_t job, char **ret_job, char **ret_step);

/* The same of this process. */
int place_read(uint32_t job, char **ret_job, char **ret_step);

/* The directory of a cgroup: one that is root's, without a link on the way. Returns an fd. */
int place_open(const char *path);

/* user.xsched.KEY of the directory. */
int place_set(int fd, const char *key, const char *value);
bool place_has(int fd, const char *key);
