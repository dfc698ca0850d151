/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The service's socket, on which programs register without a bus
 *
 * In a bus address, as in XSCHED_BUS_ADDRESS=, the socket is an address of a kind of its own, beside that of the bus:
 * "xsched:path=/run/xschedd-client/socket;unix:path=/run/dbus/system_bus_socket". Other D-Bus libraries skip it.
 */

/* Alone in its directory, so that the directory can be mounted into a container: a service that restarts makes a new
 * socket there. */
#define CLIENT_SOCKET "/run/xschedd-client/socket"

#define CLIENT_SOCKET_KIND "xsched:"
