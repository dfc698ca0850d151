/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Who has named a cgroup: where others than root can make cgroups, they call them what they like
 */

#include "origin.h"

/* How much of the path root has named. */
size_t named_by_root(const Origin *o);
