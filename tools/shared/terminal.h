/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The terminal: its size, its colours, the pager in front of it, and single keys
 */

#include "tools/shared/ctl.h"

bool colors_wanted(void);

/* Of standard output; 0 when it is no terminal, or --full was given. */
size_t terminal_width(const Ctl *c);
size_t terminal_height(void);

/* Between these two, standard output goes through the pager, if the options and the terminal want one. */
void pager_open(const Ctl *c);
void pager_close(void);

/* Single keys without echo, a screen of its own and no cursor, until terminal_restore(): which exit() calls, too, so
 * that no way out of the program leaves the terminal changed. 0 or a negative errno. */
int terminal_take(void);
void terminal_restore(void);
