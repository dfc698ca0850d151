/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The cgroup of a container that is being made
 *
 * Its first process is in there already, as deep as the engine wants. What is said of the container is said of the
 * cgroup that has its id in its name: it ends with the container, and nobody else is in there. A container that has
 * none (its engine was told to make none) is in somebody else's, of which nothing is said.
 */

#include "oci/state.h"

/* From the text of /proc/PID/cgroup and the container's id: the path below the unified hierarchy. -ENOENT: none of its
 * own. Pure. */
int oci_cgroup_find(const char *text, const char *id, char **ret);

/* Its directory. */
int oci_cgroup_open(const OciState *s);
