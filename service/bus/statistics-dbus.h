/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Statistics: what monitoring asks for again and again, in one answer
 */

#include "bus-util.h"

/* A histogram is (a(tt)tt): of each bound, in microseconds, how many took no longer; their sum, and their number. */
int bus_append_histogram(sd_bus_message *reply, const Histogram *h);
int method_list_statistics(sd_bus_message *message, void *userdata, sd_bus_error *error);
