/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Cgroup root: where the v2 hierarchy of cgroups is mounted
 */

/* One of systemd's two mount points: alone, or beside the old controllers. NULL: neither. */
const char *cgroup_root(void);
