/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Opens the connection: to the service's own socket, or to its bus
 */

#include "control.h"

/* Opens a connection to the service's own socket, or to a bus. `configured`: XSCHED_BUS_ADDRESS= or "".
 * Returns as dbus_open(), or -ENOENT when no socket is named. */
int link_open_socket(const char *configured, Dbus **ret);
int link_open_bus(const char *configured, Dbus **ret);
