/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Settings on the command line: KEY=VALUE
 */

#include "tools/shared/object.h"

/* Appends one setting as an entry of a{sv}. `kind` says which keys there are. An exit status. */
int settings_append(sd_bus_message *m, ObjectKind kind, const char *assignment);

/* Prints the keys of `set`, for a help. */
void settings_print_keys(void);
