/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Changes of devices' policies and parameters over the bus: SetPolicy, Preview, and properties that are written
 */

#include "bus-util.h"
#include "service/core/device.h"

/* What a call asks for. */
typedef struct PolicyChange {
        DeviceSettings set;
        unsigned forget; /* see device_settings_forget() */
        bool keep;       /* it outlives the next boot */
} PolicyChange;

#define POLICY_CHANGE_NULL ((PolicyChange){0})

int policy_from_name(const char *name, const PolicyOps **ret, sd_bus_error *error);

/* Whether the caller may change the device, "" being every one. */
int check_change_device(Manager *m, sd_bus_message *message, const char *id, sd_bus_error *error);

/* Changes the device, which need not exist, and says who did that. */
int change_device(Manager *m, sd_bus_message *message, const char *id, const PolicyChange *change, sd_bus_error *error);

/* What was set for one device at run time. */
typedef struct DeviceLifetimes {
        DeviceSettings stored, runtime;
} DeviceLifetimes;

/* Sets the error when there is neither such a device, nor any settings stored for it. */
int device_lifetimes(Manager *m, const char *id, DeviceLifetimes *ret, sd_bus_error *error);

/* Puts *then in place of *expected, and says who did that. -ESTALE: something else is set, and nothing changes. */
int restore_device(Manager *m, sd_bus_message *message, const char *id, const DeviceLifetimes *expected,
                const DeviceLifetimes *then, sd_bus_error *error);

/* Of a device's object. */
int method_preview_policy(sd_bus_message *message, void *userdata, sd_bus_error *error);

/* Of the manager. */
int check_set_policy(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error);
int method_set_policy(sd_bus_message *message, void *userdata, sd_bus_error *error);
