/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Where the service lets programs register without a bus
 *
 * In an address of a bus, as XSCHED_BUS_ADDRESS= has it, such a socket stands as one of a kind of its own, beside that
 * of the bus: "xsched:path=/run/xschedd-client/socket;unix:path=/run/dbus/system_bus_socket". Whoever knows buses only
 * passes over it.
 */

/* Alone in its directory, which can be mounted into a container as a whole: a service that starts anew makes another
 * socket there. */
#define CLIENT_SOCKET "/run/xschedd-client/socket"

#define CLIENT_SOCKET_KIND "xsched:"
