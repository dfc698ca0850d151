/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Describe: the whole state of the service, as JSON and as text
 */

#include <systemd/sd-bus.h>

#include "service/core/manager.h"

/* Begin an answer in steps (answer.h); a method's handler returns their result. One JSON object: "version", "devices",
 * "groups", "clients", "queues", "degraded", "statistics". */
int describe_json(Manager *m, sd_bus_message *message);

/* The internal state as text, in a memfd: every entity with its grant, every queue with its words. */
int describe_text(Manager *m, sd_bus_message *message);
