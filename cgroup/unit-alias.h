/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Aliases: other names of a unit
 *
 * An alias is a link of that name in a directory of units, to a file of another name. It is read from there, because
 * asking systemd may take long when systemd is busy.
 */

/* Looks for an alias of the system's manager below `root`. Returns > 0 and the unit's own name, which the caller frees;
 * 0 when `name` is no alias; or a negative errno. */
int unit_alias(const char *root, const char *name, char **ret);
