/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Lists of libraries, between colons (or blanks, in LD_PRELOAD): OPENCL_LAYERS, LD_PRELOAD
 *
 * Thread safety: all pure.
 */

/* Is `path`, or another file of the same name, named in the list? Returns a pointer into the list, or NULL. */
const char *shim_list_find(const char *list, const char *path);

/* The list with `path` in front of what is there already, and in place of another copy of it: two copies would make
 * one process two clients. `list` may be NULL. -EINVAL when the path cannot stand in such a list. */
int shim_list_prepend(const char *list, const char *path, char **ret);
