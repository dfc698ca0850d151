/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Everything that the service knows, for people and for machines
 */

#include <systemd/sd-bus.h>

#include "service/core/manager.h"

/* What a method's handler returns, for an answer that is made in steps (answer.h). One JSON object: "version",
 * "devices", "groups", "clients", "queues", "degraded", "statistics". */
int describe_json(Manager *m, sd_bus_message *message);

/* The internal state as text, in a memfd: every entity with its grant, every queue with its words. */
int describe_text(Manager *m, sd_bus_message *message);
