/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A made-up trace, in PAI's columns
 */

#include "trace.h"

/* Writes a made-up trace as PAI's two tables. */
int trace_make_pai(const TraceShape *shape, FILE *jobs, FILE *tasks);

/* Adds shape->services to a trace, from its first submission until its last. */
int trace_add_services(const TraceShape *shape, Trace *t);
