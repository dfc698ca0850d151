/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Why, and what: Explain, Describe, Dump
 */

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#include "describe.h"
#include "hold.h"
#include "job.h"
#include "manager-dbus.h"

/* --- Explain --- */

static int append_value(sd_bus_message *reply, SettingsSource source, const char *detail, SettingsKey k,
                const Settings *s) {
        const char *name = settings_source_to_string(source);

        switch (k) {
        case SETTINGS_PRIORITY:
                return sd_bus_message_append(reply, "(ssv)", name, detail, "i", s->priority);
        case SETTINGS_WEIGHT:
                return sd_bus_message_append(reply, "(ssv)", name, detail, "u", s->weight);
        case SETTINGS_THRESHOLD:
                return sd_bus_message_append(reply, "(ssv)", name, detail, "u", s->threshold);
        case SETTINGS_PREEMPTION:
                return sd_bus_message_append(
                                reply, "(ssv)", name, detail, "s", preemption_to_string(s->preemption));
        case SETTINGS_GANG:
                return sd_bus_message_append(reply, "(ssv)", name, detail, "b", (int) s->gang);
        case SETTINGS_MAX:
                return sd_bus_message_append(reply, "(ssv)", name, detail, "u", s->max);
        case SETTINGS_MIN:
                return sd_bus_message_append(reply, "(ssv)", name, detail, "u", s->min);
        case SETTINGS_PERIOD:
                return sd_bus_message_append(reply, "(ssv)", name, detail, "t", (uint64_t) s->period_us);
        default:
                return sd_bus_message_append(reply, "(ssv)", name, detail, "s", s->class);
        }
}

/* "Weight: set for /system.slice/train.service" */
static int append_line(sd_bus_message *reply, SettingsSource source, SettingsKey k, const char *why,
                const char *whose, const Settings *s) {
        char detail[PATH_MAX + 128];

        (void) snprintf(detail, sizeof(detail), "%s: %s%s%s", settings_key_to_string(k), why,
                        isempty(whose) ? "" : " ", strempty(whose));
        return append_value(reply, source, detail, k, s);
}

static const char *layer_why(SettingsSource source) {
        static const char *const table[_SETTINGS_SOURCE_MAX] = {
                        [SETTINGS_FROM_DEFAULT] = "by default",
                        [SETTINGS_FROM_SLICE] = "inherited from",
                        [SETTINGS_FROM_UNIT] = "by a property of",
                        [SETTINGS_FROM_USER_UNIT] = "by the user's unit",
                        [SETTINGS_FROM_UNIT_FILE] = "by [X-XSched] in",
                        [SETTINGS_FROM_ATTRIBUTE] = "by user.xsched.* of",
                        [SETTINGS_FROM_CLASS] = "by [Match] in",
                        [SETTINGS_FROM_JOB] = "set with",
                        [SETTINGS_FROM_HOLD] = "held for the process",
                        [SETTINGS_FROM_OVERRIDE] = "set for",
                        [SETTINGS_FROM_WISH] = "wished by the process",
                        [SETTINGS_FROM_OWNER] = "set by the owner for",
        };
        return table[source];
}

static int explain_class(sd_bus_message *reply, Manager *m, const SettingsLayer *l, SettingsKey k) {
        if (k == SETTINGS_CLASS || !settings_has(l->settings, SETTINGS_CLASS))
                return 0;
        const Settings *class = manager_lookup_class(l->settings->class, m);
        if (!class || !settings_has(class, k))
                return 0;
        return append_line(reply, l->source, k, "by class", l->settings->class, class);
}

/* What one layer says of one key: by itself, or through the class that it names. */
static int explain_layer(sd_bus_message *reply, Manager *m, const SettingsLayer *l, SettingsKey k) {
        int r = 0;

        if (l->source == SETTINGS_FROM_SLICE && !settings_key_is_inherited(k))
                return 0;
        if (settings_has(l->settings, k))
                r = append_line(reply, l->source, k, layer_why(l->source), l->detail, l->settings);
        return r < 0 ? r : explain_class(reply, m, l, k);
}

/* What is set for a group until the next boot hides what is stored for it, key by key, and what both say stands above their classes. */
static int explain_override(sd_bus_message *reply, const Group *g, SettingsKey k) {
        const char *name = group_stored_name(g) ?: g->name;
        const Settings *stored = stored_find(&g->manager->stored, group_stored_name(g));
        const SettingsLayer runtime = {SETTINGS_FROM_OVERRIDE, name, &g->override},
                            lasting = {SETTINGS_FROM_OVERRIDE, name, stored};
        int r = 0;

        if (settings_has(&g->override, k))
                r = append_line(reply, SETTINGS_FROM_OVERRIDE, k, "set until the next boot for", name,
                                &g->override);
        if (r >= 0 && stored && settings_has(stored, k))
                r = append_line(reply, SETTINGS_FROM_OVERRIDE, k, "stored for", name, stored);
        if (r >= 0)
                r = explain_class(reply, g->manager, &runtime, k);
        if (r >= 0 && stored && !settings_has(&g->override, SETTINGS_CLASS))
                r = explain_class(reply, g->manager, &lasting, k);
        return r;
}

/* Whether what the layer says of the key, by itself or by its class, is what holds. */
static bool layer_holds(const Client *c, const SettingsLayer *l, SettingsKey k) {
        const Settings *class = settings_has(l->settings, SETTINGS_CLASS)
                        ? manager_lookup_class(l->settings->class, c->manager)
                        : NULL;

        return c->resolved.from[k] == l->source &&
                        (settings_holds(&c->resolved, l->settings, k) ||
                                        (class && settings_holds(&c->resolved, class, k)));
}

/* Of what only lowers: that which did, or that which had nothing to lower. The last that did has the last word. */
static int explain_lowering(sd_bus_message *reply, const Client *c, const SettingsLayer *lowering, size_t n,
                SettingsKey k, bool did) {
        int r = 0;

        for (size_t i = n; i-- > 0 && r >= 0;)
                if (layer_holds(c, lowering + i, k) == did)
                        r = explain_layer(reply, c->manager, lowering + i, k);
        return r;
}

static int append_chain(sd_bus_message *reply, const Client *c) {
        SettingsLayer layers[CLIENT_LAYERS_MAX], lowering[CLIENT_LOWERING_MAX];
        const Settings usual = {
                        .mask = ~(1U << SETTINGS_CLASS),
                        .priority = POLICY_PRIORITY_DEFAULT,
                        .weight = POLICY_WEIGHT_DEFAULT,
                        .period_us = POLICY_PERIOD_DEFAULT / NSEC_PER_USEC,
        };
        char self[64];

        (void) snprintf(self, sizeof(self), "client %" PRIu64, c->id);
        size_t n = client_layers(c, layers);
        layers[0].detail = self;

        size_t n_lowering = client_lowering_layers(c, lowering);
        for (size_t i = 0; i < n_lowering; i++)
                if (lowering[i].settings == &c->lowering)
                        lowering[i].detail = self;
        for (SettingsKey k = 0; k < _SETTINGS_KEY_MAX; k++) {
                int r = explain_lowering(reply, c, lowering, n_lowering, k, true);
                for (size_t i = 0; r >= 0 && i < n; i++)
                        r = layers[i].settings == &c->group->effective
                                        ? explain_override(reply, c->group, k)
                                        : explain_layer(reply, c->manager, layers + i, k);
                if (r >= 0)
                        r = explain_lowering(reply, c, lowering, n_lowering, k, false);
                if (r >= 0 && k != SETTINGS_CLASS)
                        r = append_line(reply, SETTINGS_FROM_DEFAULT, k, "built in", NULL, &usual);
                if (r < 0)
                        return r;
        }
        return 0;
}

int method_explain(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *reply = NULL;
        Manager *m = userdata;
        Client *c;
        int fd;

        int r = sd_bus_message_read(message, "h", &fd);
        if (r < 0)
                return r;
        r = client_from_pidfd(m, fd, &c, error);
        if (r < 0)
                return r;
        r = sd_bus_message_new_method_return(message, &reply);
        if (r >= 0)
                r = sd_bus_message_open_container(reply, 'a', "(ssv)");
        if (r >= 0)
                r = append_chain(reply, c);
        if (r >= 0)
                r = sd_bus_message_close_container(reply);
        return r < 0 ? r : sd_bus_message_send(reply);
}

/* --- Describe, Dump --- */

int method_describe(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        return describe_json(userdata, message);
}

int check_dump(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error) {
        const AuthRequest request = {.action = AUTH_MANAGE, .verb = "dump"};
        Manager *m = userdata;
        return auth_check(m->auth, message, &request, error);
}

/* Changes nothing, and is not for everybody either. */
BUS_MANAGER_CHANGE(method_dump) {
        return describe_text(m, message);
}
