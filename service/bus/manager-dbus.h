/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The manager on the bus. The vtable is in manager-dbus.c; its methods are in one file per subject.
 */

#include <systemd/sd-bus.h>

#include "bus-util.h"

/* Exports the objects, behind the manager's gate. */
int manager_dbus_attach(Manager *m, sd_bus *bus);
