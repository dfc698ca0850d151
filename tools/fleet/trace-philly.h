/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Philly's cluster_job_log
 */

#include "trace.h"

int trace_read_philly(FILE *f, Trace *ret);
