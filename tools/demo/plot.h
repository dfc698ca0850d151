/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The plot: an SVG file of our own making, so that no plotting program is needed
 */

#include "report.h"

/* 0 or a negative errno; the caller says why. */
int report_plot(const Outcome *o, FILE *f);
