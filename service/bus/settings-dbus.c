/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * ListSettings: the settings that were made at run time
 *
 * A group need not exist to have stored settings. This list is then the only place that shows them.
 */

#include <inttypes.h>

#include "answer.h"
#include "manager-dbus.h"
#include "settings-dbus.h"
#include "settings-message.h"

/* Approximate size of an entry. */
#define ENTRY_SIZE 256

static int append_member(sd_bus_message *reply, const char *kind, uint64_t id, const Settings *override,
                const Settings *lowering) {
        char target[32];

        (void) snprintf(target, sizeof(target), "%s:%" PRIu64, kind, id);
        int r = bus_append_lifetime(reply, target, "runtime", override);
        return r < 0 ? r : bus_append_lifetime(reply, target, "owner", lowering);
}

static int append_device(sd_bus_message *reply, const char *id, const char *lifetime, const DeviceSettings *settings) {
        char target[DEVICE_ID_MAX + sizeof("device:")];

        (void) snprintf(target, sizeof(target), "device:%s", streq(id, OVERRIDES_EVERY_DEVICE) ? "all" : id);
        return bus_append_device_lifetime(reply, target, lifetime, settings);
}

/* Settings without an object: those for every device, and those of devices and groups that need not exist. */
static int append_others(Answer *a, WalkTable table) {
        const Overrides *o = &a->manager->overrides;
        const OverridesEntry *e, *next;
        const OverridesDevice *d, *tmp;

        if (table != WALK_DEVICES)
                return 0;
        int r = append_device(a->reply, OVERRIDES_EVERY_DEVICE, "runtime", &a->manager->every_device);
        HASH_ITER(hh, o->devices, d, tmp)
                if (r >= 0)
                        r = append_device(a->reply, d->id, "stored", &d->settings);
        HASH_ITER(hh, o->entries, e, next) {
                if (r < 0)
                        break;
                r = bus_append_lifetime(a->reply, e->name, "stored", &e->settings);
        }
        return r < 0 ? r : ENTRY_SIZE * (int) (1 + HASH_COUNT(o->devices) + HASH_COUNT(o->entries));
}

static int append_object(Answer *a, WalkTable table, void *object) {
        const Device *d = object;
        const Group *g = object;
        const Client *c = object;
        const Queue *q = object;
        int r = 0;

        switch (table) {
        case WALK_DEVICES:
                r = append_device(a->reply, d->id, "runtime", &d->runtime);
                break;
        case WALK_GROUPS:
                r = bus_append_lifetime(a->reply, g->name, "runtime", &g->override);
                if (r >= 0)
                        r = bus_append_lifetime(a->reply, g->name, "owner", &g->lowering);
                break;
        case WALK_CLIENTS:
                r = append_member(a->reply, "client", c->id, &c->override, &c->lowering);
                break;
        default:
                r = append_member(a->reply, "queue", q->id, &q->override, &q->lowering);
        }
        return r < 0 ? r : ENTRY_SIZE;
}

int method_list_settings(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        static const AnswerOps ops = {
                        .begin = append_others,
                        .object = append_object,
                        .end = answer_send,
                        .tables = {WALK_DEVICES, WALK_GROUPS, WALK_CLIENTS, WALK_QUEUES},
                        .n_tables = 4,
        };
        return answer_list(userdata, message, &ops, "(ssa{sv})");
}
