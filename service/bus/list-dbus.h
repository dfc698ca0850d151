/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Lists and look-ups of the manager
 */

#include "bus-util.h"

/* Opens a reply that is one array, appends its elements, sends it. */
typedef int (*bus_append_t)(Manager *m, sd_bus_message *reply);
int bus_reply_list(sd_bus_message *message, Manager *m, const char *contents, bus_append_t append);

int method_list_devices(sd_bus_message *message, void *userdata, sd_bus_error *error);
int method_list_clients(sd_bus_message *message, void *userdata, sd_bus_error *error);
int method_list_queues(sd_bus_message *message, void *userdata, sd_bus_error *error);
int method_list_groups(sd_bus_message *message, void *userdata, sd_bus_error *error);
int method_list_policies(sd_bus_message *message, void *userdata, sd_bus_error *error);
int method_list_classes(sd_bus_message *message, void *userdata, sd_bus_error *error);
int method_get_client_by_process(sd_bus_message *message, void *userdata, sd_bus_error *error);
int method_get_client_by_pid(sd_bus_message *message, void *userdata, sd_bus_error *error);
int method_get_group(sd_bus_message *message, void *userdata, sd_bus_error *error);

/* Finds the client of the process that the next arguments name (bus_read_process()). */
int client_from_process(Manager *m, sd_bus_message *message, Client **ret, sd_bus_error *error);
