/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Claims on the bus: HoldPriority
 */

#include "bus-util.h"

int check_hold_priority(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error);
int method_hold_priority(sd_bus_message *message, void *userdata, sd_bus_error *error);
int method_list_holds(sd_bus_message *message, void *userdata, sd_bus_error *error);
