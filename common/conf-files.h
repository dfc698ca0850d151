/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The list of files that make up a configuration, by systemd's rules
 *
 * Several directories, highest precedence first (/etc, /run, /usr/lib). Files of one name mask each other: that of the
 * first directory counts. A file that is empty or a link to /dev/null only masks. The remaining files are read in the
 * order of their names, whatever directory each comes from.
 */

#include <stddef.h>

#include "common/conf-parser.h"

typedef struct ConfFiles {
        char **paths;
        size_t n;
} ConfFiles;

#define CONF_FILES_NULL ((ConfFiles){0})

/* Where xsched's configuration is: the directories of a list, the first of which prevails. Needs config.h. */
#define CONF_DIRECTORIES XSCHED_PKGCONFDIR, "/run/xsched", XSCHED_VENDORDIR

/* Lists the files `dir/subdir/NAME<suffix>` of a NULL-terminated list of directories (subdir may be NULL). A
 * directory that does not exist has no files; a link to nothing, or a file, in its place does exist. Other directories
 * and files that cannot be read are reported, and the first error is returned with the other files in *ret, so that the
 * caller chooses between "the rest applies" and "change nothing". */
int conf_files_list(
                const char *const *dirs, const char *subdir, const char *suffix, const ConfContext *c, ConfFiles *ret);
void conf_files_done(ConfFiles *f);
