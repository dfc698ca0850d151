/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Who changed what: the line in the journal of every change that came over the bus
 *
 * It is written after the change was made, one line for each key, with the caller as the bus and the kernel know him.
 * What an administrator does is always written down; what users may do to their own things only so often
 * (user_may_log()).
 *
 *         _cleanup_(audit_done)
 *         Audit a = AUDIT_NULL;
 *
 *         audit_begin(m, message, &a);
 *         ...the change...
 *         audit_settings(&a, &object, &before, &after, &settings);
 *
 * Old and new. What is set replaces what was in force, which may not be what was set before; a reset leaves what is in
 * force then.
 */

#include "cgroup/peer.h"
#include "service/base/auth.h"
#include "service/base/log.h"
#include "service/core/manager.h"
#include "service/settings/device-settings.h"
#include "service/settings/settings.h"

typedef struct Audit {
        Manager *manager;
        Peer peer; /* whatever could be known of the caller */
        LogCaller caller;
        bool administrators; /* not users' own */
        char by[128];        /* "busctl (pid 88, uid 0, session-1.scope)" */
} Audit;

#define AUDIT_NULL ((Audit){.peer = PEER_NULL})

/* What was changed: its number or name as a field, and as words. */
typedef struct AuditObject {
        LogFields fields;
        const char *name; /* "client 5", "/system.slice/a.service" */
        const char *how;  /* " until...": said behind the new value; may be NULL */
} AuditObject;

void audit_begin(Manager *m, sd_bus_message *message, Audit *ret);
void audit_done(Audit *a);

/* One key. `old` may be "": it had none. */
void audit_value(const Audit *a, const AuditObject *o, const char *key, const char *old, const char *new);

/* Everything that `set` names or takes away. `before`, `after`: what was and is in force; NULL: there is nothing of
 * that name. */
void audit_settings(const Audit *a, const AuditObject *o, const SettingsResolved *before,
                const SettingsResolved *after, const Settings *set);

/* Settings were taken away: what is in force by that. NULL: nothing is there that they were in force for. */
void audit_reset(const Audit *a, const AuditObject *o, const SettingsResolved *before,
                const SettingsResolved *after);

/* Likewise, of what was only stored: what that was. */
void audit_forgotten(const Audit *a, const AuditObject *o, const Settings *former);

/* Of a device: what is in force. */
typedef struct AuditDevice {
        const PolicyOps *ops;
        PolicyConfig config;
        Preemption preemption;
        Accounting accounting;
} AuditDevice;

/* What `set` names and what was forgotten, as it was before and as it is now. */
void audit_device(const Audit *a, const AuditObject *o, const DeviceSettings *set, unsigned forget,
                const AuditDevice *before, const AuditDevice *after);

void audit_suspended(Manager *m, sd_bus_message *message, const AuditObject *o, bool suspended);

/* Anything else: "WHAT, by WHOM". */
void audit_event(const Audit *a, const char *message_id, const AuditObject *o, const char *what);
