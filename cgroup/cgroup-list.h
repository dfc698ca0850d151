/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What is in a cgroup
 */

#include <sys/types.h>

#include "common/macro.h"

/* The processes of a cgroup, in no order; *ret is newly allocated, or NULL when there are none. -ENOENT when the cgroup
 * is gone, -EOPNOTSUPP when it has threads only. */
int cgroup_list_processes(const char *cgroup, pid_t **ret, size_t *ret_n);
