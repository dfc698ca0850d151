/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The record on the bus
 */

#include "bus-util.h"

int method_get_record(sd_bus_message *message, void *userdata, sd_bus_error *error);
