/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Text files, for node_exporter's textfile collector: whoever reads one finds all of it, the old or the new
 */

#include <stddef.h>

/* "-": standard output. 0 or a negative errno. */
int textfile_write(const char *path, const char *text, size_t size);
