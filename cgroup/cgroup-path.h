/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Parses the path of a cgroup: its unit and its slice, by systemd's naming
 *
 * This folder goes from a pid to a group: the process (peer.h), its cgroup, and the names that systemd gives to that.
 * It reads /proc and cgroupfs, and writes nowhere.
 */

#include "common/cgroup-text.h"
#include "common/macro.h"

/* Return the unit or slice at the end of a cgroup path; "" when there is none. The caller frees *ret. */
int cgroup_path_unit(const char *path, char **ret);
int cgroup_path_slice(const char *path, char **ret);

/* Returns the slice that the cgroup is, or else the unit that it belongs to. */
int cgroup_path_owner(const char *path, char **ret);

/* Returns the path at which systemd places a slice: /a.slice/a-b.slice for "a-b.slice". -EINVAL: not a slice. */
int cgroup_path_of_slice(const char *unit, char **ret);

/* Returns how many bytes of the path the system's manager, or root, has named: up to the first service or scope. The
 * names below were chosen by the programs of that unit, at will. */
size_t cgroup_path_trusted(const char *path);

/* Return whether one of the units (services and scopes), or of the slices, in the first n bytes of the path matches the
 * glob(7) pattern. */
bool cgroup_path_has_unit(const char *path, size_t n, const char *pattern);
bool cgroup_path_has_slice(const char *path, size_t n, const char *pattern);

/* Returns whether the first n bytes of the path, or a cgroup above, match the pattern, in which '*' does not match a
 * slash. "/" matches everything. */
bool cgroup_path_is_in(const char *path, size_t n, const char *pattern);
