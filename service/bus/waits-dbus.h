/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Waits on the bus, as a(sssttt): device, reason, by whom, since when, until when (CLOCK_MONOTONIC in microseconds, 0:
 * not known), and for how long, up to now
 */

#include <systemd/sd-bus.h>

#include "service/core/waits.h"

int waits_append_group(sd_bus_message *reply, Group *g);
int waits_append_client(sd_bus_message *reply, Client *c);
int waits_append_queue(sd_bus_message *reply, Queue *q);
