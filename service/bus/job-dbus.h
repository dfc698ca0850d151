/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Jobs on the bus
 */

#include "bus-util.h"

int check_create_job(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error);
int method_create_job(sd_bus_message *message, void *userdata, sd_bus_error *error);
