/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Suspending groups, by their objects and by name
 */

#include "bus-util.h"

int check_suspend_group(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error);
int method_suspend_group(sd_bus_message *message, void *userdata, sd_bus_error *error);
int method_resume_group(sd_bus_message *message, void *userdata, sd_bus_error *error);
int group_suspend(sd_bus_message *message, Group *g, bool suspended, sd_bus_error *error);

/* Refuses to resume an object that only its group `by` suspends: it would be said to run, and not run. */
int bus_check_resumed(const Group *by, sd_bus_error *error);
