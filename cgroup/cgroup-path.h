/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What the path of a cgroup says: its unit and its slice, by systemd's naming
 *
 * This folder goes from a pid to a group: which process (peer.h), in which cgroup, and what systemd calls that. It reads
 * /proc and cgroupfs, and writes nowhere.
 */

#include "common/macro.h"

/* The unit or slice at the end of a cgroup path; "" when there is none. Newly allocated. */
int cgroup_path_unit(const char *path, char **ret);
int cgroup_path_slice(const char *path, char **ret);
