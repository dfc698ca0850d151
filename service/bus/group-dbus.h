/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Groups on the bus
 */

#include <systemd/sd-bus.h>

#include "service/core/group.h"

/* With the manager's gate. */
int group_dbus_attach(Manager *m);

/* By its object. > 0 and *ret when it is there, else 0. */
int group_from_path(Manager *m, const char *path, Group **ret);

/* For tree-dbus.h. */
const sd_bus_vtable *group_vtable_get(void);

/* Of the manager's vtable. */
int check_set_group(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error);
int method_set_group(sd_bus_message *message, void *userdata, sd_bus_error *error);
int check_reset_group(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error);
int method_reset_group(sd_bus_message *message, void *userdata, sd_bus_error *error);
