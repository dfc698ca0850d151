/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What the path of a cgroup says: its unit and its slice, by systemd's naming
 *
 * This folder goes from a pid to a group: which process (peer.h), in which cgroup, and what systemd calls that. It
 * reads /proc and cgroupfs, and writes nowhere.
 */

#include "common/macro.h"

/* Whether it can be the path of a cgroup that we see: from the root down, with no component that is empty, "." or "..".
 * The kernel names a cgroup outside of our own namespace by "/..". */
bool cgroup_path_is_normal(const char *path);

/* The unit or slice at the end of a cgroup path; "" when there is none. Newly allocated. */
int cgroup_path_unit(const char *path, char **ret);
int cgroup_path_slice(const char *path, char **ret);

/* Whose cgroup it is, or is part of: the slice that it is, or else the unit. */
int cgroup_path_owner(const char *path, char **ret);

/* Where systemd puts a slice: /a.slice/a-b.slice for "a-b.slice". -EINVAL when that is no slice. */
int cgroup_path_of_slice(const char *unit, char **ret);

/* How much of the path was named by the system's manager, or by root: up to the first service or scope. What is below
 * was named by whom that unit runs, who can call it what he likes. */
size_t cgroup_path_trusted(const char *path);

/* Whether one of the units (services and scopes), or of the slices, in the first n bytes of the path fits the glob(7)
 * pattern. */
bool cgroup_path_has_unit(const char *path, size_t n, const char *pattern);
bool cgroup_path_has_slice(const char *path, size_t n, const char *pattern);

/* Whether the first n bytes of the path, or a cgroup above, fit the pattern, in which no '*' stands for a slash. "/"
 * fits everything. */
bool cgroup_path_is_in(const char *path, size_t n, const char *pattern);
