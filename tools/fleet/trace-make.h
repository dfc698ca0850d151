/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A made-up trace, in PAI's columns
 */

#include "trace.h"

/* Writes a made-up trace as PAI's two tables. */
int trace_make_pai(const TraceShape *shape, FILE *jobs, FILE *tasks);
