/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Settings in messages of the bus
 */

#include <systemd/sd-bus.h>

#include "service/settings/device-settings.h"
#include "service/settings/settings.h"

/* Reads the value of the setting `key` from the message; `signature` is its type there. */
int bus_take_setting(sd_bus_message *message, const char *key, const char *signature, Settings *s, sd_bus_error *error);

/* Append the value: as it is, or in a variant. */
int bus_append_setting(sd_bus_message *m, const Settings *s, SettingsKey k);
int bus_append_setting_variant(sd_bus_message *m, const Settings *s, SettingsKey k);

/* Appends an a{sv} of the keys that are set. */
int bus_append_settings(sd_bus_message *m, const Settings *s);

/* Appends the value in force of the setting with the property's name. */
int bus_append_resolved(sd_bus_message *m, const SettingsResolved *r, const char *property);

/* The same for settings of a device. */
int bus_take_device_setting(sd_bus_message *message, const char *key, const char *signature, DeviceSettings *s,
                sd_bus_error *error);
int bus_append_device_settings(sd_bus_message *m, const DeviceSettings *s);

/* A row of ListSettings, (TARGET, LIFETIME, SETTINGS), or, without a target, of GetSettings, (LIFETIME, SETTINGS).
 * Appends nothing where nothing is set. */
int bus_append_lifetime(sd_bus_message *m, const char *target, const char *lifetime, const Settings *s);
int bus_append_device_lifetime(sd_bus_message *m, const char *target, const char *lifetime, const DeviceSettings *s);
