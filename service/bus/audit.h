/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Audit: logs every change that came over the bus, with its caller
 *
 * A line is written after the change, one for each key, with the caller's data from the bus and the kernel. Changes by
 * an administrator are always logged; users' changes of their own objects only within their budget (user_may_log()).
 *
 *         _cleanup_(audit_done)
 *         Audit a = AUDIT_NULL;
 *
 *         audit_begin(m, message, &a);
 *         ...the change...
 *         audit_settings(&a, &object, &before, &after, &settings);
 *
 * Old and new. The old value is the one that was in force, which may differ from the one set before. The new value of a
 * reset is the one then in force.
 */

#include <systemd/sd-bus.h>

#include "cgroup/peer.h"
#include "service/base/auth.h"
#include "service/base/log.h"
#include "service/core/manager-config.h"
#include "service/settings/device-settings.h"
#include "service/settings/settings.h"

typedef struct Audit {
        Manager *manager;
        sd_bus_message *message; /* borrowed */
        bool looked;             /* at the caller: not before the first line, so one who may not log costs little */
        Peer peer;               /* as far as the caller could be looked up */
        LogCaller caller;
        bool administrators; /* the change is not of a user's own object */
        char by[128];        /* "busctl (pid 88, uid 0, session-1.scope)"; "": not looked at */
} Audit;

#define AUDIT_NULL ((Audit){.peer = PEER_NULL})

/* The changed object: its fields for the journal, and its name in the text. */
typedef struct AuditObject {
        LogFields fields;
        const char *name; /* "client 5", "/system.slice/a.service" */
        const char *how;  /* " until...": appended to the new value; may be NULL */
} AuditObject;

/* The message must outlive it. */
void audit_begin(Manager *m, sd_bus_message *message, Audit *ret);
void audit_done(Audit *a);

/* Logs one key. `old` may be "": no value. */
void audit_value(Audit *a, const AuditObject *o, const char *key, const char *old, const char *new);

/* Logs every key that `set` sets or unsets. `before`, `after`: settings in force before and after; NULL: no object has
 * that name. */
void audit_settings(Audit *a, const AuditObject *o, const SettingsResolved *before, const SettingsResolved *after,
                const Settings *set);

/* Logs a reset, with the settings in force after it. NULL: no object has that name. */
void audit_reset(Audit *a, const AuditObject *o, const SettingsResolved *before, const SettingsResolved *after);

/* Logs a reset of settings that were only stored, with their values. */
void audit_forgotten(Audit *a, const AuditObject *o, const Settings *former);

/* Logs the keys that `set` sets, and those in `forget`, with the values before and after. */
void audit_device(Audit *a, const AuditObject *o, const DeviceSettings *set, unsigned forget,
                const DeviceEffective *before, const DeviceEffective *after);

void audit_suspended(Manager *m, sd_bus_message *message, const AuditObject *o, bool suspended);

/* Logs any other event: "WHAT, by WHOM". */
void audit_event(Audit *a, const char *message_id, const AuditObject *o, const char *what);

/* Logs settings that a caller has made for its own objects, unless they only lower: such settings come and go with
 * processes. */
void audit_own(Manager *m, sd_bus_message *message, const AuditObject *o, const Settings *s, bool lowers);
