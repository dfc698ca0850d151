/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Methods that GPU processes call: to register themselves and their queues, and for their wishes
 */

#include "bus-util.h"

int check_register_client(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error);
int method_register_client(sd_bus_message *message, void *userdata, sd_bus_error *error);
int check_register_queue(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error);
int method_register_queue(sd_bus_message *message, void *userdata, sd_bus_error *error);
int check_unregister_queue(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error);
int method_unregister_queue(sd_bus_message *message, void *userdata, sd_bus_error *error);
int check_hint(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error);
int method_hint(sd_bus_message *message, void *userdata, sd_bus_error *error);
