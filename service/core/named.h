/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Named: which part of a cgroup's path root has named. Users who can make cgroups give them any name
 */

#include "origin.h"

/* Length of the path's part that root has named. */
size_t named_by_root(const Origin *o);
