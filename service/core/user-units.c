/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * User units
 */

#include <limits.h>
#include <stdio.h>

#include "common/array.h"
#include "layers.h"
#include "user-units.h"

#define KEY_SIZE 16U

void user_units_done(UserUnits *u) {
        for (size_t i = 0; i < u->n; i++)
                free(u->items[i].name);
        free(u->items);
        *u = (UserUnits){};
}

static UserUnit *find_unit(const UserUnits *u, const char *name) {
        for (size_t i = 0; i < u->n; i++)
                if (streq(u->items[i].name, name))
                        return u->items + i;
        return NULL;
}

/* Returns 1 and the unit in *ret; 0 when there are too many units. */
static int get_unit(UserUnits *u, const char *name, UserUnit **ret) {
        UserUnit *item = find_unit(u, name);

        if (!item) {
                if (isempty(name) || strlen(name) > NAME_MAX || u->n >= ORIGIN_DEPTH)
                        return 0;
                UserUnit *grown = array_grow(u->items, u->n, sizeof(UserUnit));
                if (!grown)
                        return -ENOMEM;
                u->items = grown;
                item = grown + u->n;
                *item = (UserUnit){.name = strdup(name)};
                if (!item->name)
                        return -ENOMEM;
                u->n++;
        }
        *ret = item;
        return 1;
}

int user_units_add(UserUnits *u, const char *unit, const char *assignment) {
        const char *equals = strchr(assignment, '=');
        char key[KEY_SIZE];
        UserUnit *item;

        int r = get_unit(u, unit, &item);
        if (r <= 0 || !equals || (size_t) (equals - assignment) >= sizeof(key))
                return MIN(r, 0);
        (void) snprintf(key, sizeof(key), "%.*s", (int) (equals - assignment), assignment);
        int k = settings_key_from_string(key);
        if (k < 0)
                return 0;
        if (isempty(equals + 1))
                item->settings.mask &= ~(1U << k);
        else
                (void) settings_set_string(&item->settings, key, equals + 1);
        return 0;
}

int user_units_add_settings(UserUnits *u, const char *unit, const Settings *s) {
        UserUnit *item;

        int r = get_unit(u, unit, &item);
        if (r > 0)
                item->settings = *s;
        return MIN(r, 0);
}

/* systemd prefixes names with an underscore where they would clash with cgroupfs's own files. */
static const char *unit_of(const Origin *o) {
        const char *slash = strrchr(o->path, '/');

        return !slash ? "" : slash[1] == '_' ? slash + 2 : slash + 1;
}

void user_units_apply(const UserUnits *u, uid_t uid, Origin *o) {
        char manager[128];

        (void) snprintf(manager, sizeof(manager), "/user.slice/user-%u.slice/user@%u.service/", (unsigned) uid,
                        (unsigned) uid);
        for (; o && startswith(o->path, manager); o = o->parent) {
                const UserUnit *item = find_unit(u, unit_of(o));

                if (item)
                        origin_set_told(o, &item->settings);
        }
}
