/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Extended attributes of a cgroup's directory: user.xsched.class, user.xsched.priority, ...
 *
 * Whoever owns the directory can set them, without systemd and without us: root on any, a user on what was delegated to
 * him. They are therefore told together with the owner; what a user's attributes may do is the caller's to decide.
 */

#include <sys/types.h>

#include "common/macro.h"

/* What a cgroup is called by others, "label.pod", is no setting. */
#define CGROUP_ATTR_LABEL "label."

/* Called for each attribute: "class", and its value as text. */
typedef void (*cgroup_attr_t)(const char *key, const char *value, void *userdata);

/* The directory of a cgroup below the v2 hierarchy, wherever that is mounted; -ENOENT when it is nowhere. */
int cgroup_directory(const char *cgroup, char **ret);

/* Who owns that directory: root, or the user whom the cgroup was delegated to. */
/* The cgroup's number, which no other cgroup has before the next boot. -ENOENT when there is no such cgroup, -EINVAL
 * when there cannot be one, -ENODEV when there is no hierarchy to be seen. */
int cgroup_id(const char *cgroup, uint64_t *ret);

int cgroup_owner(const char *cgroup, uid_t *ret);

/* The owner of attributes that not only the owner of the directory may write. */
#define CGROUP_ATTR_ANYBODY ((uid_t) -1)

/* -ENOENT when the directory is gone; attributes that a file system does not have are none. */
int cgroup_attr_read(const char *directory, cgroup_attr_t found, void *userdata, uid_t *ret_owner);

/* Of the directory that fd is. */
int cgroup_attr_write(int fd, const char *key, const char *value);
