/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 *  /etc/ld.so.preload of a container: how the shim gets into programs whose environment is not ours
 *
 * A runtime has read the environment before it calls a hook, and what CDI puts into it replaces what the user has
 * given. glibc reads this file beside LD_PRELOAD, which stays the user's; musl does not read it at all. The lines of
 * the image's own file are kept, behind ours. The file is mounted over the image's, so the image is not changed, except
 * that an empty file is made if there was none.
 *
 * Names are resolved in the container's root alone: the image is not trusted.
 */

#include "common/macro.h"

#define SHIM_IN_CONTAINER "/opt/xsched"

/* The text: `ours` in front of `theirs`, each on a line; without those that are in `theirs` already. Pure. */
int preload_file_text(const char *const *ours, size_t n, const char *theirs, char **ret);

/* In the mount namespace of the container, with the directory that is to be its root. 0: done, or nothing to be
 * done. */
int preload_file_mount(int root_fd);
