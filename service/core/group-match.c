/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Groups: whose they are, and what [Match] says of that
 */

#include <utlist.h>

#include "client.h"
#include "job.h"
#include "named.h"
#include "service/base/auth.h"
#include "service/settings/config.h"

uid_t group_owner(const Group *g) {
        const Client *c;

        if (g->job && g->kind == GROUP_JOB)
                return g->job->uid;
        if (!g->clients)
                return AUTH_NO_OWNER;
        DL_FOREACH2(g->clients, c, group_next)
                if (c->peer.uid != g->clients->peer.uid)
                        return AUTH_NO_OWNER;
        return g->clients->peer.uid;
}

/* Whether all clients are *uid's, who is the first one's where that is AUTH_NO_OWNER. As deep as the groups are
 * nested. */
static bool group_tree_is_of(const Group *g, uid_t *uid) {
        const Group *below;
        const Client *c;

        DL_FOREACH2(g->clients, c, group_next) {
                if (*uid == AUTH_NO_OWNER)
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
        uid_t uid = AUTH_NO_OWNER;

        if (g->job && g->kind == GROUP_JOB)
                return g->job->uid;
        return group_tree_is_of(g, &uid) ? uid : AUTH_NO_OWNER;
}

/* What [Match] can fit: what has processes, and a service or scope that has them all in cgroups below. */
static bool group_can_match(const Group *g) {
        if (!g->origin || !g->manager->config->classes.any_match)
                return false;
        return !group_is_inner(g) || (g->origin->unit && !endswith(g->origin->unit, ".slice"));
}

/* Whether it has become another class. */
bool group_match(Group *g) {
        const Settings former = g->match;
        const Class *c = NULL;
        MatchFacts facts;

        if (group_can_match(g)) {
                match_facts_trusted(g->origin->path, named_by_root(g->origin),
                                group_is_inner(g) ? group_tree_owner(g) : group_owner(g), &facts);
                c = classes_match(&g->manager->config->classes, &facts, NULL);
        }
        g->match = SETTINGS_NULL;
        free(g->match_detail);
        g->match_detail = NULL;
        if (c) {
                (void) settings_set_class(&g->match, c->name);
                (void) match_explain(&c->match, &facts, &g->match_detail);
        }
        return !settings_is_equal(&former, &g->match);
}

/* Nobody lowers what others have a part in. Whether that is another answer than before. */
bool group_note_lowering(Group *g) {
        bool counts = !settings_is_empty(&g->lowering) && group_tree_owner(g) == g->lowering_uid;

        if (counts == g->lowering_counts)
                return false;
        g->lowering_counts = counts;
        return true;
}
