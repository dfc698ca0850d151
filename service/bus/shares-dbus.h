/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * ListShares: what the settings ask for, of each device's time, as they are or as they would be
 */

#include "bus-util.h"

/* Of the manager's vtable. */
int method_list_shares(sd_bus_message *message, void *userdata, sd_bus_error *error);
