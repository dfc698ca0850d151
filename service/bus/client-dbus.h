/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Clients on the bus
 */

#include "service/core/client.h"

/* With the manager's gate. */
int client_dbus_attach(Manager *m);

/* By its object. > 0 and *ret when it is there, else 0. */
int client_from_path(Manager *m, const char *path, Client **ret);

/* For tree-dbus.h. */
const sd_bus_vtable *client_vtable_get(void);
