/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Extended attributes of a cgroup's directory: user.xsched.class, user.xsched.priority, ...
 *
 * The owner of the directory can set them, without systemd and without us: root on any, a user on delegated ones. So
 * the owner is returned with them, and the caller decides what a user's attributes may do.
 */

#include <sys/types.h>

#include "common/macro.h"

/* Prefixes of labels such as "label.pod", which are no settings. What begins with "claim." is a label that the user
 * who started the container chose. */
#define CGROUP_ATTR_LABEL     "label."
#define CGROUP_ATTR_CLAIM     "claim."
#define CGROUP_ATTR_LABEL_MAX ((size_t) 253) /* bytes of a label's value */

/* Called for each attribute: "class", and its value as text. */
typedef void (*cgroup_attr_t)(const char *key, const char *value, void *userdata);

/* Returns the directory of a cgroup in the v2 hierarchy, wherever that is mounted; the caller frees *ret. -ENOENT: it
 * is not mounted. */
int cgroup_directory(const char *cgroup, char **ret);

/* The cgroup's id, which no other cgroup has before the next boot. -ENOENT: no such cgroup; -EINVAL: not a valid path;
 * -ENODEV: no hierarchy is visible. */
int cgroup_id(const char *cgroup, uint64_t *ret);

/* The owner of the directory: root, or the user to whom the cgroup was delegated. */
int cgroup_owner(const char *cgroup, uid_t *ret);

/* The owner of attributes that other users than the directory's owner may write. */
#define CGROUP_ATTR_ANYBODY ((uid_t) -1)

/* Reads all attributes. -ENOENT: the directory is gone. A file system without attributes has none. */
int cgroup_attr_read(const char *directory, cgroup_attr_t found, void *userdata, uid_t *ret_owner);

/* Writes an attribute of the directory that fd refers to. */
int cgroup_attr_write(int fd, const char *key, const char *value);
