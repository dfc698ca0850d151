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
