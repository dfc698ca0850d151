/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * When each tenant ran and waited, as SVG and as a trace
 */

#include "outcome.h"

/* 0 or a negative errno; what the stream says is the stream's to tell. */
int outcome_print_svg(const Outcome *o, FILE *f);
int outcome_print_trace(const Outcome *o, FILE *f);
