/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Recordings on the bus
 */

#include "bus-util.h"

int check_start_recording(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error);
int method_start_recording(sd_bus_message *message, void *userdata, sd_bus_error *error);
