/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Groups
 */

#include <limits.h>
#include <stdio.h>
#include <utlist.h>

#include "cgroup/cgroup-path.h"
#include "cgroup/unit-alias.h"
#include "gone.h"
#include "group-match.h"
#include "group-totals.h"
#include "job.h"
#include "layers.h"
#include "observer.h"
#include "resolve.h"
#include "service/settings/xsched-conf.h"
#include "share.h"
#include "tally.h"
#include "turn.h"
#include "usage.h"
#include "walk.h"

static const char *const group_kind_table[_GROUP_KIND_MAX] = {
                [GROUP_CGROUP] = "cgroup",
                [GROUP_JOB] = "job",
};
DEFINE_STRING_TABLE_TO_STRING(group_kind, GroupKind);

static Group *group_done(Group *g) {
        if (!g)
                return NULL;
        origin_unref(g->origin);
        free(g->name);
        free(g->unit);
        free(g->match_detail);
        free(g->kept.lowering);
        free(g);
        return NULL;
}
DEFINE_TRIVIAL_CLEANUP_FUNC(Group *, group_done);

void group_set_owner(Group *g, uint64_t owner) {
        Entity *e;

        if (owner == g->owner)
                return;
        g->owner = owner;
        DL_FOREACH2(g->entities, e, group_next)
                entity_party_changed(e);
}

/* Recurses as deep as the groups are nested. */
static void group_match_below(Group *g) {
        Group *below;

        DL_FOREACH2(g->children, below, children_next) {
                if (group_match(below))
                        group_settings_changed(below);
                group_match_below(below);
                turn_look(g->manager);
        }
}

void group_members_changed(Group *g, bool resolve) {
        bool lowering = group_note_lowering(g);

        if (group_match(g) || resolve || lowering) {
                group_settings_changed(g);
                group_match_below(g);
        }
        if (lowering)
                groups_below_changed(g->manager, g->name);
}

void groups_note_owners(Group *g) {
        for (; g && !g->manager->stopping; g = g->parent) {
                if (group_is_inner(g) && group_match(g)) {
                        group_settings_changed(g);
                        groups_below_changed(g->manager, g->name);
                }
                if (group_note_lowering(g)) {
                        group_settings_changed(g);
                        groups_below_changed(g->manager, g->name);
                }
        }
}

void group_lowering_of(Group *g, uid_t uid) {
        if (uid != g->lowering_uid)
                g->lowering = SETTINGS_NULL;
        g->lowering_uid = uid;
}

/* `cgroup`: the path at which its settings begin; NULL: none. */
int group_new(Manager *m, GroupKind kind, const char *name, const char *unit, const char *cgroup, Group **ret) {
        _cleanup_(group_donep)
        Group *g = calloc(1, sizeof(*g));

        if (!g)
                return -ENOMEM;
        g->manager = m;
        g->kind = kind;
        g->lowering_uid = UID_NONE;
        g->name = strdup(name);
        g->unit = strdup(strempty(unit));
        if (!g->name || !g->unit)
                return -ENOMEM;
        if (cgroup) {
                int r = origin_get(m, cgroup, &g->origin);
                if (r < 0)
                        return r;
        }
        group_resolve(g);
        group_totals_join(g);

        HASH_ADD_KEYPTR(hh, m->groups, g->name, strlen(g->name), g);
        turn_look(m); /* this function runs once for each level of a path */
        observers_group_added(g);
        *ret = TAKE_PTR(g);
        return 0;
}

/* Whether the group is the unit's own cgroup, placed by the system's manager. Below that, users and containers choose
 * names as they like, also names of others' units. */
static bool group_is_unit(const Group *g, const char *unit) {
        const char *slash = strrchr(g->name, '/');

        return g->name[0] == '/' && streq(slash + 1, unit) && cgroup_path_trusted(g->name) == strlen(g->name);
}

/* Takes settings that were made for the unit before its cgroup was known. */
static void group_inherit_unit(Group *g) {
        Group *unit;

        HASH_FIND_STR(g->manager->groups, g->unit, unit);
        if (!unit || unit == g || !group_is_unit(g, g->unit))
                return;
        g->override = unit->override;
        unit->override = SETTINGS_NULL;
        observers_group_changed(g, GROUP_KEPT);
        observers_group_changed(unit, GROUP_KEPT);
        group_gc(unit);
        group_settings_changed(g);
        groups_below_changed(g->manager, g->name);
}

static unsigned path_depth(const char *path) {
        unsigned n = 0;

        for (const char *p = path; *p; p++)
                n += *p == '/';
        return n;
}

/* An upper bound: the name, the unit, the origin's path, and a path on the bus while it is sent, in which a character
 * that is no letter takes three bytes. */
unsigned group_cost(const char *cgroup) {
        return path_depth(cgroup) * (unsigned) (sizeof(Group) + sizeof(struct Origin) + 6 * strlen(cgroup));
}

int group_get(Manager *m, const char *cgroup, Group **ret) {
        Group *g;

        HASH_FIND_STR(m->groups, cgroup, g);
        if (g) {
                *ret = g;
                return 0;
        }

        /* Refuse other paths for every caller: a group represents a cgroup inside of the tree. */
        if (cgroup[0] == '/' && !cgroup_path_is_normal(cgroup))
                return -EINVAL;
        if (path_depth(cgroup) > GROUP_DEPTH_MAX)
                return -EDQUOT;
        _cleanup_free_ char *unit = NULL;
        int r = cgroup_path_owner(cgroup, &unit);
        if (r < 0)
                return r;
        r = group_new(m, GROUP_CGROUP, cgroup, unit, cgroup[0] == '/' ? cgroup : NULL, &g);
        if (r < 0)
                return r;
        group_inherit_unit(g);
        *ret = g;
        return 0;
}

static Group *find_by_name(Manager *m, const char *name) {
        Group *g, *tmp;

        if (streq(name, "-.slice"))
                name = "/"; /* "-.slice" is the only unit that the path of its cgroup does not name */
        HASH_FIND_STR(m->groups, name, g);
        if (g)
                return g;
        if (isempty(name) || strchr(name, '/'))
                return NULL;
        HASH_ITER(hh, m->groups, g, tmp)
                if (streq(g->unit, name) && group_is_unit(g, name))
                        return g;
        return NULL;
}

Group *group_find(Manager *m, const char *name) {
        _cleanup_free_ char *own = NULL;
        Group *g = find_by_name(m, name);

        return !g && unit_alias("", name, &own) > 0 ? find_by_name(m, own) : g;
}

Group *group_free(Group *g) {
        if (!g)
                return NULL;

        Manager *m = g->manager;
        group_totals_leave(g);
        observers_group_removed(g);
        walks_forget(m, WALK_GROUPS, g);
        HASH_DEL(m->groups, g);
        tallies_free_of_group(g);
        m->n_suspended -= g->suspended;
        return group_done(g);
}

/* --- the tree --- */

/* The path of the group above. Of a job: the cgroup that it was made in. NULL: nothing is above. */
static const char *group_parent_path(const Group *g, char *buf, size_t size) {
        const char *path = g->origin ? g->origin->path : g->name;

        if (path[0] != '/' || (g->kind == GROUP_CGROUP && streq(path, "/")))
                return NULL;
        (void) snprintf(buf, size, "%s", path);
        if (g->kind == GROUP_CGROUP) {
                char *slash = strrchr(buf, '/');

                slash[slash == buf ? 1 : 0] = '\0';
        }
        return buf;
}

/* A suspension of the new or the former parent counts for the group. */
static void parent_changed(Group *g) {
        if (!g->manager->stopping)
                observers_group_changed(
                                g, g->manager->n_suspended > 0 ? GROUP_PARENT | GROUP_SUSPENSION : GROUP_PARENT);
}

/* Links the group to its parents. Recurses as deep as the path. */
int group_attach(Group *g) {
        char path[PATH_MAX];
        Group *parent;

        if (g->parent || !group_parent_path(g, path, sizeof(path)))
                return 0;
        int r = group_get(g->manager, path, &parent);
        if (r < 0)
                return r;
        r = group_attach(parent);
        if (r < 0) {
                group_gc(parent);
                return r;
        }
        bool inner = group_is_inner(parent);
        g->parent = parent;
        DL_APPEND2(parent->children, g, children_prev, children_next);
        parent->n_children++;
        parent->n_jobs += g->kind == GROUP_JOB;
        if (group_is_inner(parent) != inner)
                group_settings_changed(parent);
        group_members_changed(g, false);
        parent_changed(g);
        return 0;
}

/* Leaves the parent, which keeps the run time of the group and counts no part twice. Returns the former parent. */
static Group *group_detach(Group *g) {
        Group *parent = g->parent;

        if (!parent || g->n_clients > 0 || g->n_children > 0 || g->awaited || g->entities)
                return NULL;
        uint64_t run_ns = group_gpu_time(g, now_ns());
        parent->gone_run_ns += run_ns - g->told_run_ns;
        g->told_run_ns = run_ns;
        bool inner = group_is_inner(parent);
        g->parent = NULL;
        DL_DELETE2(parent->children, g, children_prev, children_next);
        parent->n_children--;
        parent->n_jobs -= g->kind == GROUP_JOB;
        parent_changed(g);
        if (parent->n_children > 0 && group_is_inner(parent) != inner && !g->manager->stopping)
                group_settings_changed(parent);
        if (!g->manager->stopping)
                group_members_changed(g, false);
        return parent;
}

void group_left(Group *g) {
        Group *parent = group_detach(g);

        if (g->job)
                job_gc(g->job);
        else
                group_gc(g);
        while ((g = parent)) {
                turn_look(g->manager);
                parent = group_detach(g);
                if (group_gc(g) && g->n_children == 0 && g->n_clients == 0 && !g->manager->stopping)
                        group_settings_changed(g);
        }
}

static bool group_is_lasting(const Group *g) {
        const char *unit = g->origin ? g->origin->unit : NULL;

        return unit && !streq_ptr(strrchr(unit, '.'), ".scope");
}

Group *group_gc(Group *g) {
        if (g->n_clients > 0 || g->job || g->n_children > 0 || g->awaited || g->entities)
                return g;
        /* A cgroup can come again and finds its settings then; a job cannot. Settings of users wait for units only,
         * because users cannot make units. */
        if (g->kind == GROUP_CGROUP && (g->suspended || !settings_is_empty(&g->override)))
                return g;
        if (g->kind == GROUP_CGROUP && !settings_is_empty(&g->lowering) && group_is_lasting(g))
                return g;
        return group_free(g);
}

void groups_gc(Manager *m) {
        Group *g, *tmp;

        HASH_ITER(hh, m->groups, g, tmp)
                (void) group_gc(g);
}
