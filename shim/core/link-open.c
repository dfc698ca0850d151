/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Opens the connection: to the service's own socket, or to its bus
 *
 * The socket is tried first: there, a process that keeps the bus busy does not delay us. The bus is used where there is
 * no socket (an older service, a container that has only the bus) or where the socket refuses us. Only a bus tells when
 * a service comes back, so after each end of a socket connection the process waits on a bus.
 */

#include <stdio.h>

#include "common/client-socket.h"
#include "common/macro.h"
#include "link-open.h"
#include "shim/core/link.h"

#define SYSTEM_ADDRESS                                                                                                 \
        CLIENT_SOCKET_KIND                                                                                             \
        "path=" CLIENT_SOCKET ";unix:path=/run/dbus/system_bus_socket;unix:path=/var/run/dbus/system_bus_socket"

static const char *link_address(const char *configured) {
        const char *address = configured;

        if (isempty(address))
                address = secure_getenv("DBUS_SYSTEM_BUS_ADDRESS");
        return isempty(address) ? SYSTEM_ADDRESS : address;
}

/* Finds the first address of a socket and writes it as one of a peer. */
static bool socket_address(const char *configured, char *buf, size_t size) {
        for (const char *s = link_address(configured); *s;) {
                size_t n = strcspn(s, ";");
                const char *rest = startswith(s, CLIENT_SOCKET_KIND);
                if (rest)
                        return snprintf(buf, size, "unix:%.*s", (int) (s + n - rest), rest) < (int) size;
                s += n + (s[n] == ';');
        }
        return false;
}

int link_open_socket(const char *configured, Dbus **ret) {
        char address[512];

        return socket_address(configured, address, sizeof(address)) ? dbus_open(address, false, ret) : -ENOENT;
}

int link_open_bus(const char *configured, Dbus **ret) {
        return dbus_open(link_address(configured), true, ret);
}
