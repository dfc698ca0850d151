/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * ListShares
 *
 * The caller says which groups want a device. A person means the groups that have wanted it lately, and only a program
 * that watches all the time knows these. The tree, the settings and the arithmetic are the policy's (policy/divide.h).
 */

#include <utlist.h>

#include "common/bus-names.h"
#include "group-dbus.h"
#include "manager-dbus.h"
#include "policy/divide.h"
#include "service/core/entity-facts.h"
#include "service/core/layers.h"
#include "service/core/resolve.h"
#include "service/core/suspended.h"
#include "service/core/turn.h"
#include "shares-dbus.h"

/* Groups in one call: their number bounds how long it takes. */
#define WANTING_MAX 128U
#define ITEMS_MAX   1024U

typedef struct Wanting {
        Device *device;
        Group *group;
} Wanting;

typedef struct Shares {
        Manager *manager;
        Wanting wanting[WANTING_MAX];
        size_t n_wanting;
        unsigned n_named; /* number of these, and of names that were skipped */

        /* A group with the settings that a change would give it. */
        Group *changed; /* NULL: as it is */
        Group then;

        /* The tree of one device. */
        DivideItem items[ITEMS_MAX];
        Group *groups[ITEMS_MAX]; /* of nodes */
        size_t n;
} Shares;

/* --- the message --- */

static bool is_wanting(const Shares *s, const Device *d, const Group *g) {
        for (size_t i = 0; i < s->n_wanting; i++)
                if (s->wanting[i].device == d && s->wanting[i].group == g)
                        return true;
        return false;
}

/* Skips names of devices and groups that do not exist. */
static int read_device(sd_bus_message *message, Shares *s, sd_bus_error *error) {
        const char *id, *name;

        int r = sd_bus_message_read(message, "s", &id);
        if (r >= 0)
                r = sd_bus_message_enter_container(message, 'a', "s");
        Device *d = r < 0 ? NULL : device_find(s->manager, id);
        while (r >= 0 && (r = sd_bus_message_read(message, "s", &name)) > 0) {
                Group *g;

                if (++s->n_named > WANTING_MAX)
                        return sd_bus_error_setf(
                                        error, SD_BUS_ERROR_LIMITS_EXCEEDED, "More than %u groups", WANTING_MAX);
                HASH_FIND_STR(s->manager->groups, name, g);
                if (g && d && !group_suspended_by(g) && !is_wanting(s, d, g))
                        s->wanting[s->n_wanting++] = (Wanting){d, g};
        }
        return r < 0 ? r : sd_bus_message_exit_container(message);
}

static int read_wanting(sd_bus_message *message, Shares *s, sd_bus_error *error) {
        int r = sd_bus_message_enter_container(message, 'a', "(sas)");

        while (r >= 0 && (r = sd_bus_message_enter_container(message, 'r', "sas")) > 0) {
                r = read_device(message, s, error);
                if (r >= 0)
                        r = sd_bus_message_exit_container(message);
        }
        return r < 0 ? r : sd_bus_message_exit_container(message);
}

static int read_change(sd_bus_message *message, Shares *s, sd_bus_error *error) {
        const char *name;
        uint64_t flags;
        Settings set;

        int r = sd_bus_message_read(message, "s", &name);
        if (r >= 0)
                r = bus_read_set(s->manager, message, SET_FLAG_PERSISTENT, &flags, &set, error);
        if (r < 0 || isempty(name))
                return r;
        s->changed = group_find(s->manager, name);
        if (!s->changed)
                return sd_bus_error_setf(error, BUS_ERROR("NoSuchGroup"), "There is no group '%s'", name);
        group_would_be(message, s->changed, flags, &set, &s->then);
        return 0;
}

/* --- the tree --- */

/* Groups below the one that is changed inherit from it: they are resolved as if it were so. */
static SettingsResolved resolved_of(const Shares *s, Group *g) {
        Group *changed = s->changed;

        if (!changed ||
                        !(g == changed || group_inherits_from(g, changed->name) ||
                                        (changed->unit[0] && group_inherits_from(g, changed->unit))))
                return g->resolved;
        if (g == changed)
                return s->then.resolved;
        const Settings effective = changed->effective, lowering = changed->lowering;
        bool counts = changed->lowering_counts;
        Group copy = *g;

        changed->effective = s->then.effective;
        changed->lowering = s->then.lowering;
        changed->lowering_counts = s->then.lowering_counts;
        const char *name = group_stored_name(g);
        group_resolve_copy(&copy, name ? overrides_find(&s->manager->overrides, name) : NULL);
        changed->effective = effective;
        changed->lowering = lowering;
        changed->lowering_counts = counts;
        return copy.resolved;
}

static int add_item(Shares *s, DivideItem item, Group *g, size_t *ret) {
        if (s->n == ITEMS_MAX)
                return -E2BIG;
        s->items[s->n] = item;
        s->groups[s->n] = g;
        *ret = s->n++;
        return 0;
}

/* Adds the group's node, after those of the groups above it, as share.h does. *ret_depth: the number of levels. */
static int add_node(Shares *s, Group *g, size_t *ret, unsigned *ret_depth) {
        size_t parent = DIVIDE_ROOT;
        unsigned depth = 0;

        if (g->parent) {
                int r = add_node(s, g->parent, &parent, &depth);
                if (r < 0)
                        return r;
        }
        *ret_depth = depth + 1;
        *ret = parent;
        for (size_t k = 0; k < s->n; k++)
                if (s->groups[k] == g) {
                        *ret = k;
                        return 0;
                }
        if (depth >= POLICY_DEPTH_MAX)
                return 0;
        const SettingsResolved resolved = resolved_of(s, g);
        return add_item(s, (DivideItem){.parent = parent, .is_node = true, .node = settings_node(&resolved.policy)}, g,
                        ret);
}

/* The group's entity, and those of its clients and queues that have settings of their own. */
static int add_entities(Shares *s, const Device *d, Group *g, size_t node) {
        const SettingsResolved resolved = resolved_of(s, g);
        PolicySettings usual = resolved.policy;
        const Entity *e;
        size_t k, n = 0;
        int r = 0;

        usual.weight = POLICY_WEIGHT_DEFAULT;
        usual.utilization = POLICY_UTILIZATION_MAX;
        usual.nice = 0;
        DL_FOREACH2(g->entities, e, group_next) {
                if (r < 0 || e->device != d || e->n_active == 0)
                        continue;
                PolicySettings settings = entity_settings(e);
                if (e->kind == ENTITY_GROUP) {
                        usual.active = settings.active;
                        settings = usual;
                }
                r = add_item(s, (DivideItem){.parent = node, .entity = settings}, NULL, &k);
                n++;
        }
        return r < 0 || n > 0 ? r : add_item(s, (DivideItem){.parent = node, .entity = usual}, NULL, &k);
}

static int divide_device(Shares *s, const Device *d) {
        s->n = 0;
        for (size_t i = 0; i < s->n_wanting; i++) {
                unsigned depth;
                size_t node;

                if (s->wanting[i].device != d)
                        continue;
                int r = add_node(s, s->wanting[i].group, &node, &depth);
                if (r >= 0)
                        r = add_entities(s, d, s->wanting[i].group, node);
                if (r < 0)
                        return r;
        }
        Divide divide;
        int r = divide_begin(&divide, d->ops, d->config.concurrency, s->items, s->n);
        while (r >= 0 && divide_tier(&divide))
                turn_look(s->manager);
        return r;
}

/* --- the answer --- */

/* Skips a device that the caller has named before. */
static int append_device(sd_bus_message *reply, Shares *s, size_t i, sd_bus_error *error) {
        const Device *d = s->wanting[i].device;

        for (size_t k = 0; k < i; k++)
                if (s->wanting[k].device == d)
                        return 0;
        int r = divide_device(s, d);
        if (r == -E2BIG)
                return sd_bus_error_set(error, SD_BUS_ERROR_LIMITS_EXCEEDED, "Too many groups");
        if (r == -EINVAL) /* the policy goes by past use, and not by settings */
                return 0;
        for (size_t k = 0; r >= 0 && k < s->n; k++)
                if (s->groups[k])
                        r = sd_bus_message_append(reply, "(ssd)", d->id, s->groups[k]->name, s->items[k].part);
        turn_look(s->manager);
        return r;
}

int method_list_shares(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *reply = NULL;
        _cleanup_free_ Shares *s = calloc(1, sizeof(*s));

        if (!s)
                return -ENOMEM;
        s->manager = userdata;
        int r = read_wanting(message, s, error);
        if (r >= 0)
                r = read_change(message, s, error);
        if (r >= 0)
                r = sd_bus_message_new_method_return(message, &reply);
        if (r >= 0)
                r = sd_bus_message_open_container(reply, 'a', "(ssd)");
        for (size_t i = 0; r >= 0 && i < s->n_wanting; i++)
                r = append_device(reply, s, i, error);
        if (r >= 0)
                r = sd_bus_message_close_container(reply);
        return r < 0 ? r : sd_bus_message_send(reply);
}
