/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Origins ask systemd about their units, asynchronously, and again when it has reloaded its files
 */

#include <systemd/sd-bus.h>

#include "service/core/origin.h"

int origin_dbus_attach(Manager *m, sd_bus *bus);
