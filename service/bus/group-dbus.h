/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Groups on the bus
 */

#include <systemd/sd-bus.h>

#include "service/core/group.h"

/* With the manager's gate. */
int group_dbus_attach(Manager *m);

/* By its object. > 0 and *ret when it is there, else 0. */
int group_from_path(Manager *m, const char *path, Group **ret);

/* For tree-dbus.h. */
const sd_bus_vtable *group_vtable_get(void);

/* Of the manager's vtable. */
int check_set_group(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error);
int method_set_group(sd_bus_message *message, void *userdata, sd_bus_error *error);
int check_reset_group(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error);
int method_reset_group(sd_bus_message *message, void *userdata, sd_bus_error *error);

/* Makes a copy of the group with the settings that it would have after Set with these arguments by the caller of
 * `message`. See group_resolve_copy() in resolve.h for what such a copy may be used for. */
void group_would_be(sd_bus_message *message, const Group *g, uint64_t flags, const Settings *s, Group *ret);

/* --- for restore-dbus.h --- */

/* Whether settings are stored by this name: not for scopes and jobs, because another scope or job may have the name the
 * next time. */
bool group_is_storable(const Manager *m, const char *name);

/* Stores the settings by that name, and replaces those that were stored. */
int group_store(Manager *m, const char *name, const Settings *s, sd_bus_error *error);

/* After the group's settings were changed: applies them, says who did that, and answers the call. Frees a group that
 * was made only for settings that have gone. `set`: as for audit_settings(); NULL: settings were reset. */
int group_apply(Group *g, sd_bus_message *message, const Settings *set, bool stored);

/* group_apply() for settings that are only stored: there need not be a group. `former`: settings that are removed when
 * nothing is set. */
int group_name_apply(
                Manager *m, const char *name, sd_bus_message *message, const Settings *set, const Settings *former);
