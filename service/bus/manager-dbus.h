/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The manager on the bus. The vtable is in manager-dbus.c; its methods are in one file per subject.
 */

#include <systemd/sd-bus.h>

#include "bus-util.h"

/* Exports the objects, behind the manager's gate. */
int manager_dbus_attach(Manager *m, sd_bus *bus);

/* register-dbus.c */
int check_register_client(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error);
int method_register_client(sd_bus_message *message, void *userdata, sd_bus_error *error);
int check_register_queue(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error);
int method_register_queue(sd_bus_message *message, void *userdata, sd_bus_error *error);
int check_unregister_queue(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error);
int method_unregister_queue(sd_bus_message *message, void *userdata, sd_bus_error *error);
int check_hint(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error);
int method_hint(sd_bus_message *message, void *userdata, sd_bus_error *error);

/* job-dbus.c */
int check_create_job(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error);
int method_create_job(sd_bus_message *message, void *userdata, sd_bus_error *error);

/* claim-dbus.c */
int check_hold_priority(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error);
int method_hold_priority(sd_bus_message *message, void *userdata, sd_bus_error *error);
int method_list_holds(sd_bus_message *message, void *userdata, sd_bus_error *error);

/* list-dbus.c */
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

/* Of the process that the next arguments name (bus_read_process()). */
int client_from_process(Manager *m, sd_bus_message *message, Client **ret, sd_bus_error *error);

/* statistics-dbus.c. A histogram is (a(tt)tt): of each bound, in microseconds, how many took no longer; their sum, and
 * their number. */
int bus_append_histogram(sd_bus_message *reply, const Histogram *h);
int method_list_statistics(sd_bus_message *message, void *userdata, sd_bus_error *error);

/* settings-dbus.c */
int method_list_settings(sd_bus_message *message, void *userdata, sd_bus_error *error);

/* explain-dbus.c */
int method_explain_object(sd_bus_message *message, void *userdata, sd_bus_error *error);
int method_explain(sd_bus_message *message, void *userdata, sd_bus_error *error);
int method_get_record(sd_bus_message *message, void *userdata, sd_bus_error *error); /* record-dbus.c */
int method_describe(sd_bus_message *message, void *userdata, sd_bus_error *error);
int check_start_recording(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error);
int method_start_recording(sd_bus_message *message, void *userdata, sd_bus_error *error); /* taping-dbus.c */
int check_dump(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error);
int method_dump(sd_bus_message *message, void *userdata, sd_bus_error *error);

/* group-dbus.c, device-dbus.c */
int check_set_group(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error);
int method_set_group(sd_bus_message *message, void *userdata, sd_bus_error *error);
int check_reset_group(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error);
int method_reset_group(sd_bus_message *message, void *userdata, sd_bus_error *error);
int check_set_policy(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error);
int method_set_policy(sd_bus_message *message, void *userdata, sd_bus_error *error);

/* suspend-dbus.c */
int check_suspend_group(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error);
int method_suspend_group(sd_bus_message *message, void *userdata, sd_bus_error *error);
int method_resume_group(sd_bus_message *message, void *userdata, sd_bus_error *error);
int group_suspend(sd_bus_message *message, Group *g, bool suspended, sd_bus_error *error);

/* Refuses to resume what is not suspended itself, but with a group: it would be said to run, and not do so. */
int bus_check_resumed(const Group *by, sd_bus_error *error);
