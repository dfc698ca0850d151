/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Timeline: when each tenant ran and waited, as SVG and as a trace
 */

#include "outcome.h"

/* Return 0 or a negative errno. Errors of the stream are left to the caller, who asks ferror(). */
int outcome_print_svg(const Outcome *o, FILE *f);
int outcome_print_trace(const Outcome *o, FILE *f);
