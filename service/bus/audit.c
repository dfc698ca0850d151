/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Log messages about changes: the caller, the object, and the old and new values
 */

#include <inttypes.h>
#include <stdio.h>

#include "audit.h"
#include "service/base/messages.h"
#include "service/core/user.h"

#define VALUE_MAX 80U

/* --- who --- */

void audit_begin(Manager *m, sd_bus_message *message, Audit *ret) {
        const AuthGrant *grant = auth_last_grant(m->auth);

        *ret = (Audit){
                        .manager = m,
                        .message = message,
                        .peer = PEER_NULL,
                        .caller = {.uid = grant->uid},
                        .administrators = grant->administrators,
        };
}

static void look(Audit *a) {
        if (a->looked)
                return;
        a->looked = true;
        /* A caller that has ended already is known by its uid only. */
        if (peer_from_sender(a->manager->connections, a->message, &a->peer) >= 0) {
                a->caller.pid = a->peer.pid;
                a->caller.unit = a->peer.unit;
                a->caller.group = a->peer.cgroup;
        }
        if (a->caller.pid > 0)
                (void) snprintf(a->by, sizeof(a->by), "%s (pid %d, uid %u%s%.64s)", a->peer.command,
                                (int) a->caller.pid, (unsigned) a->caller.uid, isempty(a->caller.unit) ? "" : ", ",
                                strempty(a->caller.unit));
        else
                (void) snprintf(a->by, sizeof(a->by), "uid %u", (unsigned) a->caller.uid);
}

void audit_done(Audit *a) {
        peer_done(&a->peer);
}

/* Returns whether a line may be written, which needs to know the caller. */
static bool may_say(Audit *a, int level) {
        if (level > log_get_max_level() || !(a->administrators || user_may_log(a->manager, a->caller.uid)))
                return false;
        look(a);
        return true;
}

/* --- what --- */

static LogFields fields_of(const Audit *a, const AuditObject *o) {
        LogFields f = o->fields;

        f.caller = &a->caller;
        return f;
}

void audit_value(Audit *a, const AuditObject *o, const char *key, const char *old, const char *new) {
        LogFields f = fields_of(a, o);

        f.key = key;
        f.old = old;
        f.new = new;
        if (may_say(a, LOG_INFO))
                log_event(LOG_INFO, f.device ? MESSAGE_POLICY_CHANGED : MESSAGE_SETTINGS_CHANGED, &f,
                                "%s of %.512s: %s%s%s%s, by %s", key, o->name, old, isempty(old) ? "" : " -> ", new,
                                strempty(o->how), a->by);
}

void audit_event(Audit *a, const char *message_id, const AuditObject *o, const char *what) {
        LogFields f = fields_of(a, o);

        if (may_say(a, LOG_NOTICE))
                log_event(LOG_NOTICE, message_id, &f, "%s, by %s", what, a->by);
}

void audit_suspended(Manager *m, sd_bus_message *message, const AuditObject *o, bool suspended) {
        _cleanup_(audit_done)
        Audit a = AUDIT_NULL;
        char what[512];

        audit_begin(m, message, &a);
        (void) snprintf(what, sizeof(what), "%s %.400s", suspended ? "Suspended" : "Resumed", o->name);
        audit_event(&a, suspended ? MESSAGE_SUSPENDED : MESSAGE_RESUMED, o, what);
}

void audit_settings(Audit *a, const AuditObject *o, const SettingsResolved *before, const SettingsResolved *after,
                const Settings *set) {
        char old_buf[VALUE_MAX], new_buf[VALUE_MAX];
        Settings former = SETTINGS_NULL, now = SETTINGS_NULL;

        if (before)
                settings_from_resolved(before, &former);
        if (after)
                settings_from_resolved(after, &now);
        for (SettingsKey k = 0; k < _SETTINGS_KEY_MAX; k++) {
                const Settings *new = settings_has(set, k) ? set : &now;
                if (new == set || set->unset &(1U << k))
                        audit_value(a, o, settings_key_to_string(k),
                                        before ? settings_format(&former, k, old_buf, sizeof(old_buf)) : "",
                                        new == set || after ? settings_format(new, k, new_buf, sizeof(new_buf)) : "");
        }
}

void audit_reset(Audit *a, const AuditObject *o, const SettingsResolved *before, const SettingsResolved *after) {
        char old_buf[VALUE_MAX], new_buf[VALUE_MAX], what[512];
        Settings former, now;

        (void) snprintf(what, sizeof(what), "Settings of %.400s: reset", o->name);
        audit_event(a, MESSAGE_SETTINGS_CHANGED, o, what);
        if (!before || !after)
                return;
        settings_from_resolved(before, &former);
        settings_from_resolved(after, &now);
        for (SettingsKey k = 0; k < _SETTINGS_KEY_MAX; k++) {
                const char *old = settings_format(&former, k, old_buf, sizeof(old_buf)),
                           *new = settings_format(&now, k, new_buf, sizeof(new_buf));
                if (!streq(old, new))
                        audit_value(a, o, settings_key_to_string(k), old, new);
        }
}

void audit_forgotten(Audit *a, const AuditObject *o, const Settings *former) {
        char buf[VALUE_MAX];

        audit_reset(a, o, NULL, NULL);
        for (SettingsKey k = 0; k < _SETTINGS_KEY_MAX; k++)
                if (settings_has(former, k))
                        audit_value(a, o, settings_key_to_string(k), settings_format(former, k, buf, sizeof(buf)), "");
}

void audit_device(Audit *a, const AuditObject *o, const DeviceSettings *set, unsigned forget,
                const DeviceEffective *before, const DeviceEffective *after) {
        char old_buf[VALUE_MAX], new_buf[VALUE_MAX];

        if (set->ops || forget & DEVICE_FORGET_POLICY)
                audit_value(a, o, "Policy", before->ops->name, after->ops->name);
        for (size_t i = 0; i < DEVICE_KEYS_N; i++) {
                const DeviceKey *k = device_keys + i;
                if (!device_settings_has(set, k) && !(forget & (1U << i)))
                        continue;
                (void) snprintf(old_buf, sizeof(old_buf), "%" PRIu64, device_key_get(k, &before->config));
                (void) snprintf(new_buf, sizeof(new_buf), "%" PRIu64, device_key_get(k, &after->config));
                audit_value(a, o, k->name, old_buf, new_buf);
        }
        if (set->has_preemption || forget & DEVICE_FORGET_PREEMPTION)
                audit_value(a, o, "Preemption", preemption_to_string(before->tuning.preemption),
                                preemption_to_string(after->tuning.preemption));
        if (set->has_accounting || forget & DEVICE_FORGET_ACCOUNTING)
                audit_value(a, o, "Accounting", accounting_to_string(before->tuning.accounting),
                                accounting_to_string(after->tuning.accounting));
}

void audit_own(Manager *m, sd_bus_message *message, const AuditObject *o, const Settings *s, bool lowers) {
        _cleanup_(audit_done)
        Audit a = AUDIT_NULL;

        if (lowers)
                return;
        audit_begin(m, message, &a);
        audit_settings(&a, o, NULL, NULL, s);
}
