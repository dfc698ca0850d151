/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Bus: exports the service on a bus
 */

#include <systemd/sd-bus.h>

#include "service/core/manager.h"

/* Exports the objects on an open connection. `polkit`: the bus is the system's, and polkit decides who may do what.
 * The name is requested separately, when all kept objects are adopted: so a caller that sees the name finds a service
 * that knows its clients. */
int bus_attach(Manager *m, sd_bus *bus, bool polkit);
int bus_request_name(Manager *m);
