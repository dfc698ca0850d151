/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Scratch root: a directory in place of the system's root, for functions that take a root as an argument
 */

#include "common/macro.h"

/* Group fixtures of cmocka, which make and remove the only such directory. */
int scratch_root_setup(void **state);
int scratch_root_teardown(void **state);

const char *scratch_root(void);
void scratch_root_clear(void);

/* Writes a file below it, with the directories that it needs; a name that ends in a slash is a directory only. */
_printf_(2, 3) void scratch_root_put(const char *name, const char *format, ...);
