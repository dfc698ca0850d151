/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Lists of libraries, between colons (or blanks, in LD_PRELOAD): OPENCL_LAYERS, LD_PRELOAD
 *
 * Thread safety: all pure.
 */

/* Returns a pointer to `path`, or another file of the same name, in the list; NULL: not in it. */
const char *shim_list_find(const char *list, const char *path);

/* Makes a list with `path` in front, without other copies of it: two copies would make one process two clients. `list`
 * may be NULL. The caller frees *ret. -EINVAL: the path cannot be in a list of this kind. */
int shim_list_prepend(const char *list, const char *path, char **ret);
