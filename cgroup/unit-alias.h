/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Aliases: the other names of a unit, by which systemd lets itself be called
 *
 * One is a link of that name in a directory of units, to a file of another name. It is read from there, and not asked
 * of systemd, which may be busy.
 */

/* Below `root`, of the system's manager. Returns > 0 and the unit's own name (newly allocated) where `name` is an
 * alias, 0 where it is none, or a negative errno. */
int unit_alias(const char *root, const char *name, char **ret);
