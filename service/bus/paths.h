/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Paths: where objects are on the bus
 *
 * Clients and queues are named by their ids, devices and groups by their ids and names, as sd_bus_path_encode() writes
 * them: a path has letters, digits and '_'.
 */

#include <systemd/sd-bus.h>

#include "common/bus-names.h"
#include "service/core/client.h"
#include "service/core/device.h"
#include "service/core/group.h"
#include "service/core/queue.h"
#include "service/core/walk.h"

#define DEVICE_PREFIX BUS_PATH "/device"
#define GROUP_PREFIX  BUS_PATH "/group"
#define CLIENT_PREFIX BUS_PATH "/client"
#define QUEUE_PREFIX  BUS_PATH "/queue"

/* Newly allocated; NULL: out of memory, and sd-bus refuses a message with such a path. */
char *device_path(const Device *d);
char *group_path(const Group *g);
char *client_path(const Client *c);
char *queue_path(const Queue *q);

/* The same for an object of the table, which is one of those on the bus. */
char *object_path(WalkTable table, const void *object);
