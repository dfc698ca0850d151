/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Statistics: what monitoring asks for again and again, in one answer
 */

#include "bus-util.h"

/* Appends a histogram, (a(tt)tt): for each bound, in microseconds, the number of samples up to it; the sum of all
 * samples; their number. */
int bus_append_histogram(sd_bus_message *reply, const Histogram *h);
int method_list_statistics(sd_bus_message *message, void *userdata, sd_bus_error *error);
