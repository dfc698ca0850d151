/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * plot: on a terminal
 */

#include "plot.h"

/* As many characters as there are bins, in tables of this width. 0 or a negative errno. */
int plot_print_text(const Plot *p, FILE *f, size_t width);
