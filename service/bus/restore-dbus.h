/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * GetSettings and RestoreSettings: read the settings that were made at run time for one group or device, by lifetime,
 * and put those of all lifetimes back at once
 */

#include "bus-util.h"

/* Of the manager's vtable. */
int method_get_settings(sd_bus_message *message, void *userdata, sd_bus_error *error);
int check_restore_settings(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error);
int method_restore_settings(sd_bus_message *message, void *userdata, sd_bus_error *error);
