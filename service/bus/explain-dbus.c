/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Why, and what: Explain, Describe, Dump
 */

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#include "client-dbus.h"
#include "describe.h"
#include "explain-dbus.h"
#include "group-dbus.h"
#include "list-dbus.h"
#include "manager-dbus.h"
#include "queue-dbus.h"
#include "service/core/claim.h"
#include "service/core/job.h"
#include "service/core/layers.h"
#include "service/core/manager-config.h"

/* --- Explain --- */

static int append_value(
                sd_bus_message *reply, SettingsSource source, const char *detail, SettingsKey k, const Settings *s) {
        int r = sd_bus_message_open_container(reply, 'r', "ssv");

        if (r >= 0)
                r = sd_bus_message_append(reply, "ss", settings_source_to_string(source), detail);
        if (r >= 0)
                r = bus_append_setting_variant(reply, s, k);
        return r < 0 ? r : sd_bus_message_close_container(reply);
}

/* Appends "Weight: set for /system.slice/train.service". `how`: a text before the reason. Where no file defines a class
 * that a layer names, the line says so at its end. */
static int append_line_how(sd_bus_message *reply, Manager *m, const char *how, SettingsSource source, SettingsKey k,
                const char *why, const char *whose, const Settings *s) {
        bool is_known = k != SETTINGS_CLASS || manager_lookup_class(s->class, m);
        char detail[PATH_MAX + 128];

        (void) snprintf(detail, sizeof(detail), "%s: %s%s%s%s%s", settings_key_to_string(k), how, why,
                        isempty(whose) ? "" : " ", strempty(whose), is_known ? "" : " (no such class)");
        return append_value(reply, source, detail, k, s);
}

static int append_line(sd_bus_message *reply, Manager *m, SettingsSource source, SettingsKey k, const char *why,
                const char *whose, const Settings *s) {
        return append_line_how(reply, m, "", source, k, why, whose, s);
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
                        [SETTINGS_FROM_CLAIM] = "held for the process",
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
        return append_line(reply, m, l->source, k, "by class", l->settings->class, class);
}

/* Lines for a key that a layer sets: by itself, or through the class that it names. */
static int explain_layer(sd_bus_message *reply, Manager *m, const SettingsLayer *l, SettingsKey k) {
        int r = 0;

        if (!settings_layer_decides(l, k))
                return 0;
        if (settings_has(l->settings, k))
                r = append_line(reply, m, l->source, k, layer_why(l->source), l->detail, l->settings);
        return r < 0 ? r : explain_class(reply, m, l, k);
}

/* Settings of a group until the next boot hide stored ones, key by key, and both come before their classes. */
static int explain_override(sd_bus_message *reply, const Group *g, SettingsKey k) {
        const char *name = group_stored_name(g) ?: g->name;
        const Settings *stored = overrides_find(&g->manager->overrides, group_stored_name(g));
        const SettingsLayer runtime = {SETTINGS_FROM_OVERRIDE, name, &g->override},
                            lasting = {SETTINGS_FROM_OVERRIDE, name, stored};
        int r = 0;

        if (settings_has(&g->override, k))
                r = append_line(reply, g->manager, SETTINGS_FROM_OVERRIDE, k, "set until the next boot for", name,
                                &g->override);
        if (r >= 0 && stored && settings_has(stored, k))
                r = append_line(reply, g->manager, SETTINGS_FROM_OVERRIDE, k, "stored for", name, stored);
        if (r >= 0)
                r = explain_class(reply, g->manager, &runtime, k);
        if (r >= 0 && stored && !settings_has(&g->override, SETTINGS_CLASS))
                r = explain_class(reply, g->manager, &lasting, k);
        return r;
}

/* The layers of a group, a client or a queue: those that decide, and those that only lower, each strongest first. */
typedef struct Explained {
        Manager *manager;
        const Group *group;
        const SettingsResolved *resolved;
        SettingsLayer layers[QUEUE_LAYERS_MAX], lowering[QUEUE_LOWERING_MAX];
        size_t n_layers, n_lowering;
} Explained;

/* The value that a layer that only lowers has for a key: its own, or that of the class that it names. */
typedef struct Lowering {
        const SettingsLayer *layer;
        const Settings *settings; /* the layer's, or its class's */
        bool lowers;              /* below what the deciding layers say */
        bool holds;               /* it is the value in force */
} Lowering;

#define LOWERING_MAX (2U * QUEUE_LOWERING_MAX)

static bool is_stronger(const Lowering *a, const Lowering *b, SettingsKey k, const SettingsResolved *decided) {
        if (a->holds != b->holds || a->lowers != b->lowers)
                return a->holds > b->holds || (a->holds == b->holds && a->lowers > b->lowers);
        return settings_key_is_lower(k, a->settings, b->settings, decided);
}

/* Puts it among the others: the strongest comes first, and of those that say the same the one that was applied first.
 */
static void add_lowering(Lowering *list, size_t *n, Lowering new, SettingsKey k, const SettingsResolved *decided) {
        size_t i = (*n)++;

        for (; i > 0 && is_stronger(&new, list + i - 1, k, decided); i--)
                list[i] = list[i - 1];
        list[i] = new;
}

static size_t find_lowering(const Explained *x, const SettingsResolved *decided, SettingsKey k, Lowering *ret) {
        size_t n = 0;

        for (size_t i = 0; i < x->n_lowering; i++) {
                const SettingsLayer *l = x->lowering + i;
                const Settings *class = settings_has(l->settings, SETTINGS_CLASS)
                                ? manager_lookup_class(l->settings->class, x->manager)
                                : NULL;
                const Settings *const both[] = {l->settings, class};

                for (size_t j = 0; j < ELEMENTSOF(both) && settings_layer_decides(l, k); j++) {
                        const Settings *s = both[j];
                        if (!s || !settings_has(s, k) || (s == class && k == SETTINGS_CLASS))
                                continue;
                        bool holds = x->resolved->from[k] == l->source && settings_holds(x->resolved, s, k),
                             lowers = settings_lowers(s, k, decided);
                        add_lowering(ret, &n, (Lowering){l, s, lowers, holds && lowers}, k, decided);
                }
        }
        return n;
}

static int explain_lowering(sd_bus_message *reply, Manager *m, const Lowering *l, SettingsKey k) {
        const SettingsLayer *layer = l->layer;
        bool own = l->settings == layer->settings;
        const char *how = k == SETTINGS_CLASS ? "lowers by what it says: "
                        : l->lowers           ? "lowered: "
                                              : "lowers nothing: ";

        return append_line_how(reply, m, how, layer->source, k, own ? layer_why(layer->source) : "by class",
                        own ? layer->detail : layer->settings->class, l->settings);
}

/* First what lowers, the strongest first; then what decides, at last what is built in; then what only lowers and has
 * nothing to lower. */
static int explain_key(sd_bus_message *reply, const Explained *x, const SettingsResolved *decided,
                const Settings *usual, SettingsKey k) {
        Lowering lowering[LOWERING_MAX];
        size_t i = 0, n = find_lowering(x, decided, k, lowering);
        int r = 0;

        for (; r >= 0 && i < n && lowering[i].lowers; i++)
                r = explain_lowering(reply, x->manager, lowering + i, k);
        for (size_t j = 0; r >= 0 && j < x->n_layers; j++)
                r = x->layers[j].settings == &x->group->effective ? explain_override(reply, x->group, k)
                                                                  : explain_layer(reply, x->manager, x->layers + j, k);
        if (r >= 0 && k != SETTINGS_CLASS)
                r = append_line(reply, x->manager, SETTINGS_FROM_DEFAULT, k, "built in", NULL, usual);
        for (; r >= 0 && i < n; i++)
                r = explain_lowering(reply, x->manager, lowering + i, k);
        return r;
}

static int append_chain(sd_bus_message *reply, const Explained *x) {
        SettingsResolved decided;
        Settings usual;

        settings_from_resolved(&settings_usual, &usual);
        settings_resolve(x->layers, x->n_layers, manager_lookup_class, x->manager, &decided);
        for (SettingsKey k = 0; k < _SETTINGS_KEY_MAX; k++) {
                int r = explain_key(reply, x, &decided, &usual, k);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int reply_chain(sd_bus_message *message, const Explained *x) {
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *reply = NULL;

        int r = sd_bus_message_new_method_return(message, &reply);
        if (r >= 0)
                r = sd_bus_message_open_container(reply, 'a', "(ssv)");
        if (r >= 0)
                r = append_chain(reply, x);
        if (r >= 0)
                r = sd_bus_message_close_container(reply);
        return r < 0 ? r : sd_bus_message_send(reply);
}

#define NAME_SIZE 64U

static void name_layer(SettingsLayer *layers, size_t n, const Settings *settings, const char *name) {
        for (size_t i = 0; i < n; i++)
                if (layers[i].settings == settings)
                        layers[i].detail = name;
}

static void name_client(Explained *x, const Client *c, char name[static NAME_SIZE]) {
        (void) snprintf(name, NAME_SIZE, "client %" PRIu64, c->id);
        name_layer(x->layers, x->n_layers, &c->override, name);
        name_layer(x->lowering, x->n_lowering, &c->lowering, name);
}

static int explain_client(sd_bus_message *message, const Client *c) {
        Explained x = {.manager = c->manager, .group = c->group, .resolved = &c->resolved};
        char name[NAME_SIZE];

        x.n_layers = client_layers(c, x.layers);
        x.n_lowering = client_lowering_layers(c, x.lowering);
        name_client(&x, c, name);
        return reply_chain(message, &x);
}

/* Above and below the layers of its client are its own. */
static int explain_queue(sd_bus_message *message, const Queue *q) {
        SettingsResolved resolved = q->resolved, before;
        Explained x = {.manager = q->manager, .group = q->client->group, .resolved = &resolved};
        char name[NAME_SIZE], wished[NAME_SIZE], client[NAME_SIZE];
        Settings made;

        resolved.policy.priority = q->priority; /* without a boost */
        x.n_layers = queue_layers(q, x.layers);
        x.n_lowering = client_lowering_layers(q->client, x.lowering);
        settings_resolve(x.layers, x.n_layers, manager_lookup_class, x.manager, &before);
        (void) settings_lower_by_layers(&before, x.lowering, x.n_lowering, manager_lookup_class, x.manager);
        x.n_lowering += queue_own_lowering_layers(q, before.policy.priority, &made, x.lowering + x.n_lowering);

        (void) snprintf(name, sizeof(name), "queue %" PRIu64, q->id);
        (void) snprintf(wished, sizeof(wished), "for queue %" PRIu64, q->id);
        name_client(&x, q->client, client);
        name_layer(x.layers, x.n_layers, &q->override, name);
        name_layer(x.lowering, x.n_lowering, &q->lowering, name);
        name_layer(x.lowering, x.n_lowering, &q->wish, wished);
        name_layer(x.lowering, x.n_lowering, &made, wished);
        return reply_chain(message, &x);
}

static int explain_group(sd_bus_message *message, const Group *g) {
        Explained x = {.manager = g->manager, .group = g, .resolved = &g->resolved};

        x.n_layers = group_layers(g, x.layers);
        x.n_lowering = group_lowering_layers(g, x.lowering);
        return reply_chain(message, &x);
}

int method_explain(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        Client *c;

        int r = client_from_process(userdata, message, &c, error);
        return r < 0 ? r : explain_client(message, c);
}

int method_explain_object(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        Manager *m = userdata;
        const char *path;
        Client *c;
        Queue *q;
        Group *g;

        int r = sd_bus_message_read(message, "o", &path);
        if (r < 0)
                return r;
        r = client_from_path(m, path, &c);
        if (r > 0)
                return explain_client(message, c);
        if (r == 0)
                r = queue_from_path(m, path, &q);
        if (r > 0)
                return explain_queue(message, q);
        if (r == 0)
                r = group_from_path(m, path, &g);
        if (r > 0)
                return explain_group(message, g);
        return r < 0 ? r
                     : sd_bus_error_setf(error, SD_BUS_ERROR_UNKNOWN_OBJECT,
                                       "%s is neither a client nor a queue nor a group", path);
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

/* Dump changes nothing, but only administrators may read it. */
BUS_MANAGER_CHANGE(method_dump) {
        return describe_text(m, message);
}
