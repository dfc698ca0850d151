/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * plot: as SVG
 */

#include "plot.h"

/* A document of its own that loads nothing. 0 or a negative errno. */
int plot_print_svg(const Plot *p, FILE *f);
