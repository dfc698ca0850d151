/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Clients on the bus
 */

#include <systemd/sd-bus.h>

#include "service/core/client.h"

/* With the manager's gate. */
int client_dbus_attach(Manager *m);

/* Finds the client of an object path. Returns > 0 and *ret, or 0. */
int client_from_path(Manager *m, const char *path, Client **ret);

/* For tree-dbus.h. */
const sd_bus_vtable *client_vtable_get(void);
