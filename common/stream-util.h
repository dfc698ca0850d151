/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Streams and directories that are closed at the end of their scope: _cleanup_(fclosep) FILE *f
 */

#include <dirent.h>
#include <stdio.h>

static inline void fclosep(FILE **f) {
        if (*f)
                (void) fclose(*f);
}

static inline void closedirp(DIR **d) {
        if (*d)
                (void) closedir(*d);
}
