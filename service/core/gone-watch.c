/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Watches cgroups for their end, and removes what ends with them
 */

#include <uthash.h>

#include "common/process.h"
#include "gone-watch.h"
#include "gone.h"
#include "observer.h"
#include "resolve.h"
#include "service/base/log.h"
#include "suspension.h"

/* Watches the origin of a path that has overrides. There need not be a group. */
struct Gone {
        Origin *origin;
        UT_hash_handle hh;
};

static void group_gone(Group *g) {
        bool resumed = g->suspended;
        bool forgotten = gone_forgets(g->name) && !(settings_is_empty(&g->override) && settings_is_empty(&g->lowering));

        g->cgroup_id = 0;
        if (resumed) {
                gone_log_resumed(g->name);
                group_set_suspended(g, false);
        }
        if (forgotten) {
                gone_log_forgotten(g->name);
                g->override = g->lowering = SETTINGS_NULL;
                group_settings_changed(g);
        }
        if (resumed || forgotten) {
                observers_group_changed(g, GROUP_KEPT);
                group_gc(g);
        }
}

/* An override that cannot be removed from the disk is read again at the next start, and removed then. */
static void forget_stored(Manager *m, const char *name) {
        const Settings none = SETTINGS_NULL;

        int r = overrides_set(&m->overrides, name, &none);
        if (r < 0)
                log_event(LOG_WARNING, NULL, LOG_FIELDS(.group = name, .error = r),
                                "Stored settings of %s, which is gone, could not be removed, ignoring: %m", name);
        else
                gone_log_forgotten(name);
}

void gone_cgroup(Origin *o) {
        Manager *m = o->manager;
        Group *g = NULL;

        if (m->stopping)
                return;
        HASH_FIND_STR(m->groups, o->path, g);
        /* The settings were made for an earlier cgroup of this name, unless the ids are the same. */
        if (g && g->cgroup_id != 0 && !gone_since(g->name, g->cgroup_id))
                return;
        if (gone_forgets(o->path) && overrides_find(&m->overrides, o->path)) {
                forget_stored(m, o->path);
                groups_below_changed(m, o->path);
                if (g)
                        group_settings_changed(g);
        }
        if (g)
                group_gone(g);
        gone_watch(m, o->path);
}

static Gone *find(Manager *m, const char *name) {
        Gone *x;

        HASH_FIND_STR(m->gone, name, x);
        return x;
}

static void unwatch(Manager *m, Gone *x) {
        HASH_DEL(m->gone, x);
        origin_unref(x->origin);
        free(x);
}

/* Watches the cgroup's end. Without memory it is not watched: the next start of the service finds that it has ended. */
void gone_watch(Manager *m, const char *name) {
        Gone *x = find(m, name);
        bool wanted = gone_forgets(name) && overrides_find(&m->overrides, name);

        if (x && !wanted)
                unwatch(m, x);
        if (x || !wanted)
                return;
        x = calloc(1, sizeof(*x));
        if (x && origin_get(m, name, &x->origin) >= 0)
                HASH_ADD_KEYPTR(hh, m->gone, x->origin->path, strlen(x->origin->path), x);
        else
                free(x);
}

void gone_start(Manager *m) {
        char boot[BOOT_ID_SIZE] = "";
        OverridesEntry *e, *tmp;

        (void) boot_id_read(boot);
        HASH_ITER(hh, m->overrides.entries, e, tmp) {
                if (gone_forgets(e->name) && streq(e->boot, boot) && gone_since(e->name, e->cgroup_id)) {
                        _cleanup_free_ char *name = strdup(e->name);

                        if (name)
                                forget_stored(m, name);
                } else
                        gone_watch(m, e->name);
        }
}

void gone_free(Manager *m) {
        Gone *x, *tmp;

        HASH_ITER(hh, m->gone, x, tmp)
                unwatch(m, x);
}
