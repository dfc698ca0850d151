/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The manager on the bus
 */

#include <config.h>

#include "calls.h"
#include "claim-dbus.h"
#include "client-dbus.h"
#include "device-dbus.h"
#include "explain-dbus.h"
#include "group-dbus.h"
#include "job-dbus.h"
#include "list-dbus.h"
#include "log-control.h"
#include "manager-dbus.h"
#include "policy-dbus.h"
#include "queue-dbus.h"
#include "record-dbus.h"
#include "register-dbus.h"
#include "reload.h"
#include "restore-dbus.h"
#include "settings-dbus.h"
#include "shares-dbus.h"
#include "statistics-dbus.h"
#include "suspend-dbus.h"
#include "taping-dbus.h"
#include "tree-dbus.h"

BUS_GETTER(get_version) {
        return sd_bus_message_append(reply, "s", XSCHED_VERSION);
}

BUS_GETTER(get_policies) {
        int r = sd_bus_message_open_container(reply, 'a', "s");
        for (const PolicyOps *const *p = policy_all; r >= 0 && *p; p++)
                r = sd_bus_message_append(reply, "s", (*p)->name);
        return r < 0 ? r : sd_bus_message_close_container(reply);
}

BUS_GETTER(get_degraded) {
        Manager *m = userdata;
        return sd_bus_message_append_strv(reply, m->degraded);
}

BUS_GETTER(get_can_store) {
        const Manager *m = userdata;
        return sd_bus_message_append(reply, "b", (int) overrides_is_open(&m->overrides));
}

BUS_GETTER(get_n_clients) {
        Manager *m = userdata;
        return sd_bus_message_append(reply, "u", (uint32_t) HASH_COUNT(m->clients));
}

BUS_GETTER(get_n_queues) {
        Manager *m = userdata;
        return sd_bus_message_append(reply, "u", (uint32_t) HASH_COUNT(m->queues));
}

static int append_latency(sd_bus_message *reply, const LatencyRing *l) {
        LatencySummary s;

        latency_summary(l, &s);
        return sd_bus_message_append(reply, "(tttt)", s.p50_ns / NSEC_PER_USEC, s.p99_ns / NSEC_PER_USEC,
                        s.max_ns / NSEC_PER_USEC, s.n_samples);
}

BUS_GETTER(get_decision_latency) {
        const Manager *m = userdata;
        return append_latency(reply, &m->latency);
}

BUS_GETTER(get_wake_latency) {
        const Manager *m = userdata;
        return append_latency(reply, &m->wake_latency);
}

BUS_GETTER(get_driver_latency) {
        const Manager *m = userdata;
        return append_latency(reply, &m->driver_latency);
}

BUS_GETTER(get_decision_histogram) {
        const Manager *m = userdata;
        return bus_append_histogram(reply, &m->decisions);
}

BUS_GETTER(get_ready_to_run_histogram) {
        const Manager *m = userdata;
        return bus_append_histogram(reply, &m->ready_to_run);
}

BUS_CHECK(check_reload) {
        const AuthRequest request = {.action = AUTH_MANAGE, .verb = "reload"};
        Manager *m = userdata;
        return auth_check(m->auth, message, &request, error);
}

BUS_CHANGE(method_reload, Manager *m, m) {
        int r = manager_reload(m, message);
        if (r < 0)
                return sd_bus_error_setf(error, SD_BUS_ERROR_FAILED,
                                "The configuration could not be read, everything stays as it was: %s",
                                conf_strerror(r));
        return sd_bus_reply_method_return(message, NULL);
}

/* Methods without a check change nothing. */
static const GateRule manager_rules[] = {
                {.method = method_register_client, .check = check_register_client, .guests = true},
                {.method = method_register_queue, .check = check_register_queue, .guests = true},
                {.method = method_unregister_queue, .check = check_unregister_queue, .guests = true},
                {.method = method_hint, .check = check_hint, .guests = true},
                {.method = method_set_group, .check = check_set_group},
                {.method = method_reset_group, .check = check_reset_group},
                {.method = method_suspend_group, .check = check_suspend_group},
                {.method = method_resume_group, .check = check_suspend_group},
                {.method = method_set_policy, .check = check_set_policy},
                {.method = method_restore_settings, .check = check_restore_settings},
                {.method = method_create_job, .check = check_create_job},
                {.method = method_hold_priority, .check = check_hold_priority},
                {.method = method_dump, .check = check_dump},
                {.method = method_reload, .check = check_reload},
                {.method = method_start_recording, .check = check_start_recording},
                {.method = method_list_devices},
                {.method = method_list_clients},
                {.method = method_list_queues},
                {.method = method_list_groups},
                {.method = method_list_policies},
                {.method = method_list_classes},
                {.method = method_list_holds},
                {.method = method_list_settings},
                {.method = method_get_settings},
                {.method = method_list_statistics},
                {.method = method_list_shares},
                {.method = method_get_client_by_process},
                {.method = method_get_client_by_pid},
                {.method = method_get_group},
                {.method = method_explain},
                {.method = method_explain_object},
                {.method = method_describe},
                {.method = method_get_record},
                {},
};

static const sd_bus_vtable manager_vtable[] = {
                SD_BUS_VTABLE_START(0),

                SD_BUS_METHOD_WITH_ARGS("RegisterClient", SD_BUS_ARGS("t", flags, "a{sv}", properties),
                                SD_BUS_RESULT("o", client, "h", page, "h", lifeline, "h", wake), method_register_client,
                                BUS_ANY_USER),
                SD_BUS_METHOD_WITH_ARGS("RegisterQueue", SD_BUS_ARGS("o", client, "a{sv}", properties),
                                SD_BUS_RESULT("t", id, "u", slot), method_register_queue, BUS_ANY_USER),
                SD_BUS_METHOD_WITH_ARGS("UnregisterQueue", SD_BUS_ARGS("t", id), SD_BUS_NO_RESULT,
                                method_unregister_queue, BUS_ANY_USER),
                SD_BUS_METHOD_WITH_ARGS("Hint", SD_BUS_ARGS("t", queue, "a{sv}", settings), SD_BUS_NO_RESULT,
                                method_hint, BUS_ANY_USER),

                SD_BUS_METHOD_WITH_ARGS("ListDevices", SD_BUS_NO_ARGS, SD_BUS_RESULT("a(ssssuo)", devices),
                                method_list_devices, BUS_ANY_USER),
                SD_BUS_METHOD_WITH_ARGS("ListClients", SD_BUS_NO_ARGS, SD_BUS_RESULT("a(tuusso)", clients),
                                method_list_clients, BUS_ANY_USER),
                SD_BUS_METHOD_WITH_ARGS("ListQueues", SD_BUS_NO_ARGS, SD_BUS_RESULT("a(ttsso)", queues),
                                method_list_queues, BUS_ANY_USER),
                SD_BUS_METHOD_WITH_ARGS("ListGroups", SD_BUS_NO_ARGS, SD_BUS_RESULT("a(ssiuo)", groups),
                                method_list_groups, BUS_ANY_USER),
                SD_BUS_METHOD_WITH_ARGS("ListPolicies", SD_BUS_NO_ARGS, SD_BUS_RESULT("a(ss)", policies),
                                method_list_policies, BUS_ANY_USER),
                SD_BUS_METHOD_WITH_ARGS("ListClasses", SD_BUS_NO_ARGS, SD_BUS_RESULT("a(ssa{sv})", classes),
                                method_list_classes, BUS_ANY_USER),
                SD_BUS_METHOD_WITH_ARGS("ListSettings", SD_BUS_NO_ARGS, SD_BUS_RESULT("a(ssa{sv})", settings),
                                method_list_settings, BUS_ANY_USER),
                SD_BUS_METHOD_WITH_ARGS("GetSettings", SD_BUS_ARGS("s", target, "t", flags),
                                SD_BUS_RESULT("a(sa{sv})", settings), method_get_settings, BUS_ANY_USER),
                SD_BUS_METHOD_WITH_ARGS("ListStatistics", SD_BUS_ARGS("t", flags),
                                SD_BUS_RESULT("a(sssa{sv})", statistics), method_list_statistics, BUS_ANY_USER),

                SD_BUS_METHOD_WITH_ARGS("ListShares",
                                SD_BUS_ARGS("a(sas)", wanting, "s", group, "t", flags, "a{sv}", settings),
                                SD_BUS_RESULT("a(ssd)", shares), method_list_shares, BUS_ANY_USER),

                SD_BUS_METHOD_WITH_ARGS("GetClientByProcess", SD_BUS_ARGS("u", pid, "t", start_time),
                                SD_BUS_RESULT("o", client), method_get_client_by_process, BUS_ANY_USER),
                SD_BUS_METHOD_WITH_ARGS("GetClientByPID", SD_BUS_ARGS("u", pid), SD_BUS_RESULT("o", client),
                                method_get_client_by_pid, BUS_ANY_USER),
                SD_BUS_METHOD_WITH_ARGS("GetGroup", SD_BUS_ARGS("s", group), SD_BUS_RESULT("o", object),
                                method_get_group, BUS_ANY_USER),

                SD_BUS_METHOD_WITH_ARGS("SetGroup", SD_BUS_ARGS("s", group, "t", flags, "a{sv}", settings),
                                SD_BUS_NO_RESULT, method_set_group, BUS_ANY_USER),
                SD_BUS_METHOD_WITH_ARGS("ResetGroup", SD_BUS_ARGS("s", group, "t", flags), SD_BUS_NO_RESULT,
                                method_reset_group, BUS_ANY_USER),
                SD_BUS_METHOD_WITH_ARGS("SuspendGroup", SD_BUS_ARGS("s", group, "t", flags), SD_BUS_NO_RESULT,
                                method_suspend_group, BUS_ANY_USER),
                SD_BUS_METHOD_WITH_ARGS("ResumeGroup", SD_BUS_ARGS("s", group, "t", flags), SD_BUS_NO_RESULT,
                                method_resume_group, BUS_ANY_USER),
                SD_BUS_METHOD_WITH_ARGS("SetPolicy",
                                SD_BUS_ARGS("s", device, "s", policy, "t", flags, "a{sv}", settings), SD_BUS_NO_RESULT,
                                method_set_policy, BUS_ANY_USER),
                SD_BUS_METHOD_WITH_ARGS("RestoreSettings",
                                SD_BUS_ARGS("s", target, "t", flags, "a(sa{sv})", expected, "a(sa{sv})", settings),
                                SD_BUS_NO_RESULT, method_restore_settings, BUS_ANY_USER),

                SD_BUS_METHOD_WITH_ARGS("CreateJob",
                                SD_BUS_ARGS("s", name, "a{sv}", settings, "u", pid, "t", start_time, "t", flags),
                                SD_BUS_RESULT("s", token, "o", group), method_create_job, BUS_ANY_USER),
                SD_BUS_METHOD_WITH_ARGS("HoldPriority", SD_BUS_ARGS("s", class, "s", reason, "t", flags),
                                SD_BUS_RESULT("h", hold), method_hold_priority, BUS_ANY_USER),
                SD_BUS_METHOD_WITH_ARGS("ListHolds", SD_BUS_NO_ARGS, SD_BUS_RESULT("a(uusssb)", holds),
                                method_list_holds, BUS_ANY_USER),

                SD_BUS_METHOD_WITH_ARGS("Explain", SD_BUS_ARGS("u", pid, "t", start_time),
                                SD_BUS_RESULT("a(ssv)", chain), method_explain, BUS_ANY_USER),
                SD_BUS_METHOD_WITH_ARGS("ExplainObject", SD_BUS_ARGS("o", object), SD_BUS_RESULT("a(ssv)", chain),
                                method_explain_object, BUS_ANY_USER),
                SD_BUS_METHOD_WITH_ARGS("GetRecord", SD_BUS_ARGS("t", since_usec, "t", flags),
                                SD_BUS_RESULT("t", until_usec, "a(tta(sttta(uttttt)))", frames, "as", groups),
                                method_get_record, BUS_ANY_USER),
                SD_BUS_METHOD_WITH_ARGS("StartRecording", SD_BUS_ARGS("as", devices, "t", flags),
                                SD_BUS_RESULT("h", recording), method_start_recording, BUS_ANY_USER),
                SD_BUS_METHOD_WITH_ARGS(
                                "Describe", SD_BUS_NO_ARGS, SD_BUS_RESULT("s", json), method_describe, BUS_ANY_USER),
                SD_BUS_METHOD_WITH_ARGS("Dump", SD_BUS_NO_ARGS, SD_BUS_RESULT("h", output), method_dump, BUS_ANY_USER),
                SD_BUS_METHOD_WITH_ARGS("Reload", SD_BUS_NO_ARGS, SD_BUS_NO_RESULT, method_reload, BUS_ANY_USER),

                SD_BUS_SIGNAL_WITH_ARGS("ClientAdded", SD_BUS_ARGS("t", id, "o", client), 0),
                SD_BUS_SIGNAL_WITH_ARGS("ClientRemoved", SD_BUS_ARGS("t", id, "o", client), 0),
                SD_BUS_SIGNAL_WITH_ARGS("QueueAdded", SD_BUS_ARGS("t", id, "o", queue), 0),
                SD_BUS_SIGNAL_WITH_ARGS("QueueRemoved", SD_BUS_ARGS("t", id, "o", queue), 0),
                SD_BUS_SIGNAL_WITH_ARGS("GroupAdded", SD_BUS_ARGS("s", name, "o", group), 0),
                SD_BUS_SIGNAL_WITH_ARGS("GroupRemoved", SD_BUS_ARGS("s", name, "o", group), 0),
                SD_BUS_SIGNAL_WITH_ARGS("Preempted", SD_BUS_ARGS("o", device, "s", group, "s", by), 0),

                SD_BUS_PROPERTY("Version", "s", get_version, 0, BUS_CONST),
                SD_BUS_PROPERTY("Policies", "as", get_policies, 0, BUS_CONST),
                SD_BUS_PROPERTY("Degraded", "as", get_degraded, 0, BUS_CHANGES),
                SD_BUS_PROPERTY("CanStore", "b", get_can_store, 0, BUS_CONST),
                SD_BUS_PROPERTY("NClients", "u", get_n_clients, 0, 0),
                SD_BUS_PROPERTY("NQueues", "u", get_n_queues, 0, 0),
                SD_BUS_PROPERTY("NEdges", "t", NULL, offsetof(Manager, n_edges), 0),
                SD_BUS_PROPERTY("NVerdicts", "t", NULL, offsetof(Manager, n_verdicts), 0),
                SD_BUS_PROPERTY("NWakeups", "t", NULL, offsetof(Manager, n_wakeups), 0),
                SD_BUS_PROPERTY("DecisionLatency", "(tttt)", get_decision_latency, 0, 0),
                SD_BUS_PROPERTY("WakeLatency", "(tttt)", get_wake_latency, 0, 0),
                SD_BUS_PROPERTY("DriverLatency", "(tttt)", get_driver_latency, 0, 0),
                SD_BUS_PROPERTY("DecisionHistogram", "(a(tt)tt)", get_decision_histogram, 0, 0),
                SD_BUS_PROPERTY("ReadyToRunHistogram", "(a(tt)tt)", get_ready_to_run_histogram, 0, 0),

                SD_BUS_VTABLE_END,
};

int manager_dbus_attach(Manager *m, sd_bus *bus) {
        static int (*const attach[])(Manager * m) = {
                        device_dbus_attach, group_dbus_attach, client_dbus_attach, queue_dbus_attach};
        const GateInterface i = {
                        .path = BUS_PATH,
                        .name = BUS_INTERFACE,
                        .vtable = manager_vtable,
                        .rules = manager_rules,
                        .userdata = m,
        };

        int r = sd_bus_add_object_manager(bus, NULL, BUS_PATH);
        if (r >= 0)
                r = gate_new(bus, m->auth, &m->gate);
        if (r >= 0)
                r = gate_add(m->gate, &i);
        for (size_t k = 0; r >= 0 && k < ELEMENTSOF(attach); k++)
                r = attach[k](m);
        if (r >= 0)
                r = log_control_export(m);
        if (r >= 0)
                r = calls_new(m, bus, tree_answer, &m->calls);
        return r;
}
