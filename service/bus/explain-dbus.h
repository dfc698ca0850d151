/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Why, and what: Explain, Describe, Dump
 */

#include "bus-util.h"

int method_explain_object(sd_bus_message *message, void *userdata, sd_bus_error *error);
int method_explain(sd_bus_message *message, void *userdata, sd_bus_error *error);
int method_describe(sd_bus_message *message, void *userdata, sd_bus_error *error);
int check_dump(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error);
int method_dump(sd_bus_message *message, void *userdata, sd_bus_error *error);
