/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Cgroup: finds the cgroup of a container that is being made
 *
 * The container's first process is in it already, at any depth. Attributes are set on the cgroup whose name has the
 * container's id: it ends with the container, and has no other processes. A container without one (its engine was told
 * to make none) is in another's cgroup, which gets no attributes.
 */

#include "oci/state.h"

/* From the text of /proc/PID/cgroup and the container's id: the path below the unified hierarchy. -ENOENT: the
 * container has no cgroup of its own. Pure. */
int oci_cgroup_find(const char *text, const char *id, char **ret);

/* Whether CRI-O has named the cgroup: "crio-ID.scope", or "crio-ID". The container's author has no say in that. Pure.
 */
bool oci_cgroup_is_of_crio(const char *path);

/* Opens the cgroup's directory. Returns an fd. */
int oci_cgroup_open(const OciState *s, bool *ret_of_crio);
