/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The record as the service returns it, for the verbs that show some of it
 */

#include "tools/shared/table.h"
#include "tools/xschedctl/plot.h"

/* Fetches the samples that end after `since_us` (CLOCK_MONOTONIC of the service's machine); with UINT64_MAX only the
 * end of the record. Returns 0 or a negative errno. */
int record_fetch(Ctl *c, uint64_t since_us, sd_bus_error *e, PlotRecord *ret);
