/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * PAI's tables of jobs and tasks
 */

#include "trace.h"

int trace_read_pai(FILE *jobs, FILE *tasks, Trace *ret);
