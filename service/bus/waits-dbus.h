/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Waits on the bus, as a(sssttt): the device, the reason, the object that makes it wait, the begin and the expected end
 * (CLOCK_MONOTONIC in microseconds, 0: not known), and the length so far
 */

#include <systemd/sd-bus.h>

#include "service/core/waits.h"

int waits_append_group(sd_bus_message *reply, Group *g);
int waits_append_client(sd_bus_message *reply, Client *c);
int waits_append_queue(sd_bus_message *reply, Queue *q);
