/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The service on a bus
 */

#include "service/core/manager.h"

/* Exports the objects on an open connection. The name is requested separately, when everything that was kept over a
 * restart has been adopted: who sees the name finds a service that knows its clients. */
int bus_attach(Manager *m, sd_bus *bus);
int bus_request_name(Manager *m);
