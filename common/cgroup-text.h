/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Cgroup text: parses /proc/PID/cgroup
 */

#include <stdbool.h>
#include <stddef.h>

/* Returns the process's path in the unified hierarchy, inside of `text`, and its length in *ret_n, up to the end of the
 * line. NULL: the text has none. */
const char *cgroup_text_path(const char *text, size_t *ret_n);

/* Returns whether a path can be that of a cgroup that we see: from the root down, with no component that is empty, "."
 * or "..". The kernel names a cgroup outside of our own namespace by "/..". */
bool cgroup_path_is_normal(const char *path);

/* Returns whether it is an identifier by which Slurm, since 26.05, names the cgroup of a job (a SLUID): "s" and 13
 * digits of base 32. */
bool cgroup_name_is_sluid(const char *name, size_t n);
