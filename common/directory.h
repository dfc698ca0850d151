/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Reading a directory to its end, or to an error
 */

#include <dirent.h>
#include <errno.h>

#include "common/macro.h"

/* Returns the next entry. NULL: that was the last (*ret is 0), or the others could not be read (a negative errno). */
static inline struct dirent *directory_next(DIR *d, int *ret) {
        errno = 0;
        struct dirent *e = readdir(d);
        *ret = e || errno == 0 ? 0 : negative_errno();
        return e;
}
