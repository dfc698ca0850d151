/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Which files make up a configuration: systemd's rules
 *
 * Several directories, highest precedence first (/etc, /run, /usr/lib). Files of one name mask each other: the first
 * directory's counts. A file that is empty or a link to /dev/null only masks. What remains is read in the order of the
 * names, whatever directory each comes from.
 */

#include <stddef.h>

#include "common/conf-parser.h"

typedef struct ConfFiles {
        char **paths;
        size_t n;
} ConfFiles;

#define CONF_FILES_NULL ((ConfFiles){0})

/* The files `dir/subdir/NAME<suffix>` of a NULL-terminated list of directories (subdir may be NULL). A directory that
 * does not exist is no files; anything else that cannot be read is reported, and -errno of the first is returned with
 * the rest in *ret all the same, so that the caller chooses between "the rest applies" and "change nothing". */
int conf_files_list(const char *const *dirs, const char *subdir, const char *suffix, const ConfContext *c,
                ConfFiles *ret);
void conf_files_done(ConfFiles *f);
