/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Devices on the bus
 */

#include <systemd/sd-bus.h>

#include "service/core/device.h"

/* With the manager's gate. */
int device_dbus_attach(Manager *m);

/* Finds the device of an object path. Returns > 0 and *ret, or 0. */
int device_from_path(Manager *m, const char *path, Device **ret);

/* For tree-dbus.h. */
const sd_bus_vtable *device_vtable_get(void);
