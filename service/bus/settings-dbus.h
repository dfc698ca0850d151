/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * ListSettings: the settings that were made at run time
 */

#include "bus-util.h"

int method_list_settings(sd_bus_message *message, void *userdata, sd_bus_error *error);
