/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Finds a group's owner, and the class whose [Match] fits it
 */

#include <utlist.h>

#include "cgroup/cgroup-path.h"
#include "client.h"
#include "group-match.h"
#include "job.h"
#include "layers.h"
#include "named.h"
#include "origin-labels.h"
#include "service/settings/xsched-conf.h"

uid_t group_owner(const Group *g) {
        const Client *c;

        if (g->job && g->kind == GROUP_JOB)
                return g->job->uid;
        if (!g->clients)
                return UID_NONE;
        DL_FOREACH2(g->clients, c, group_next)
                if (c->peer.uid != g->clients->peer.uid)
                        return UID_NONE;
        return g->clients->peer.uid;
}

/* Returns whether all clients are *uid's; UID_NONE: sets *uid to the first client's. Recurses as deep as the
 * groups are nested. */
static bool group_tree_is_of(const Group *g, uid_t *uid) {
        const Group *below;
        const Client *c;

        DL_FOREACH2(g->clients, c, group_next) {
                if (*uid == UID_NONE)
                        *uid = c->peer.uid;
                if (c->peer.uid != *uid)
                        return false;
        }
        DL_FOREACH2(g->children, below, children_next)
                if (!group_tree_is_of(below, uid))
                        return false;
        return true;
}

uid_t group_tree_owner(const Group *g) {
        uid_t uid = UID_NONE;

        if (g->job && g->kind == GROUP_JOB)
                return g->job->uid;
        return group_tree_is_of(g, &uid) ? uid : UID_NONE;
}

/* Whether the group can match a class: it has processes itself, or is a service or scope with all its processes in
 * cgroups below. */
static bool group_can_match(const Group *g) {
        if (!g->origin || !g->manager->config->classes.any_match)
                return false;
        return !group_is_inner(g) || (g->origin->unit && !endswith(g->origin->unit, ".slice"));
}

/* Whether the group is a cgroup below a service or scope, and its class is the one that matches that unit. */
static bool group_has_class_of_unit(const Group *g) {
        size_t n = cgroup_path_trusted(g->name);

        if (g->kind != GROUP_CGROUP || g->name[n] == '\0')
                return false;
        for (const Group *above = g->parent; above; above = above->parent)
                if (strlen(above->name) == n)
                        return !settings_is_empty(&above->match) && settings_is_equal(&above->match, &g->match);
        return false;
}

bool group_match(Group *g) {
        const bool former_of_unit = g->match_of_unit;
        const Settings former = g->match;
        const Class *c = NULL;
        MatchFacts facts;

        if (group_can_match(g)) {
                match_facts_trusted(g->origin->path, named_by_root(g->origin),
                                group_is_inner(g) ? group_tree_owner(g) : group_owner(g), &facts);
                origin_add_trusted_labels(g->origin, named_by_root(g->origin), &facts);
                c = classes_match(&g->manager->config->classes, &facts, NULL);
        }
        g->match = SETTINGS_NULL;
        free(g->match_detail);
        g->match_detail = NULL;
        if (c) {
                (void) settings_set_class(&g->match, c->name);
                (void) match_explain(&c->match, &facts, &g->match_detail);
        }
        g->match_of_unit = group_has_class_of_unit(g);
        return g->match_of_unit != former_of_unit || !settings_is_equal(&former, &g->match);
}

/* A user's lowering counts only while all processes of the group are that user's. Returns whether that has changed. */
bool group_note_lowering(Group *g) {
        bool counts = !settings_is_empty(&g->lowering) && group_tree_owner(g) == g->lowering_uid;

        if (counts == g->lowering_counts)
                return false;
        g->lowering_counts = counts;
        return true;
}
