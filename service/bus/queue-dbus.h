/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Queues on the bus
 */

#include <systemd/sd-bus.h>

#include "service/core/queue.h"

/* With the manager's gate. */
int queue_dbus_attach(Manager *m);

/* By its object. > 0 and *ret when it is there, else 0. */
int queue_from_path(Manager *m, const char *path, Queue **ret);

/* For tree-dbus.h. */
const sd_bus_vtable *queue_vtable_get(void);
