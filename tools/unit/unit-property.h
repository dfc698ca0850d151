/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * NAME=VALUE of --property=, as systemd takes it on the bus
 *
 * systemd itself tells which properties a unit of a kind has and of which types, so there is no table of them here.
 * Booleans, numbers, sizes, time spans, signals, strings and lists of strings are understood. Properties of other types
 * are refused by name.
 */

#include <systemd/sd-bus.h>

#include "common/macro.h"

typedef struct UnitProperties {
        char *xml; /* the introspection of a unit of the kind; fetched when it is needed first */
} UnitProperties;

void unit_properties_done(UnitProperties *p);

/* Appends (sv). `suffix` is "service" or "scope". An exit status. */
int unit_property_append(UnitProperties *p, sd_bus *bus, const char *suffix, sd_bus_message *m, const char *assignment);
