/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The processes of a cgroup
 */

#include <sys/types.h>

#include "common/macro.h"

/* Lists the processes of a cgroup, in no order; the caller frees *ret, which is NULL when there are none. -ENOENT: the
 * cgroup is gone; -EOPNOTSUPP: it has threads only. */
int cgroup_list_processes(const char *cgroup, pid_t **ret, size_t *ret_n);
