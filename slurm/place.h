/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Place: finds the cgroups of a job and of its step, and sets their attributes
 *
 * slurmstepd has made them, .../job_N/step_M/slurm (since Slurm 26.05 .../SLUID/step_M/slurm), and is in there itself
 * when the plugin runs. The cgroups and their attributes end with the job.
 */

#include <stdbool.h>
#include <stdint.h>

/* From the text of /proc/self/cgroup: the paths of the job's cgroup and of its step's below the unified hierarchy. The
 * job's is named by its SLUID since Slurm 26.05, and then the innermost one is meant.
 * -ENOENT: the process is not in such a cgroup, as where Slurm uses cgroup v1, or none. Pure. */
int place_find(const char *text, uint32_t job, char **ret_job, char **ret_step);

/* The same of this process. */
int place_read(uint32_t job, char **ret_job, char **ret_step);

/* Opens the directory of a cgroup, which must be root's, without following links. Returns an fd, which the caller
 * closes. */
int place_open(const char *path);

/* Sets the attribute user.xsched.KEY of the directory. */
int place_set(int fd, const char *key, const char *value);

/* Sets the class of the job. Without `asked` the controller could not be asked: the class is then marked. It counts for
 * the time being, and never replaces an unmarked one. */
int place_set_class(int fd, const char *class, bool asked);

/* Whether the job has a class that is not marked. */
bool place_has_class(int fd);
