/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * [Match] for one client: classes that its group does not have, and that lower it all the same
 */

#include "client-match.h"
#include "cgroup/cgroup-path.h"
#include "client.h"
#include "named.h"
#include "origin-labels.h"
#include "service/settings/xsched-conf.h"

static void take_class(const Class *class, const MatchFacts *facts, Settings *ret, char **ret_detail) {
        *ret = SETTINGS_NULL;
        free(*ret_detail);
        *ret_detail = NULL;
        if (!class)
                return;
        (void) settings_set_class(ret, class->name);
        (void) match_explain(&class->match, facts, ret_detail);
}

static size_t believed(const Client *c) {
        const Origin *o = c->group->origin;

        return o && streq(o->path, c->peer.cgroup) ? named_by_root(o) : cgroup_path_trusted(c->peer.cgroup);
}

/* Matches by facts that a process can choose itself, its executable and cgroups that it makes. Such a class only
 * lowers. */
static void match_advised(Client *c, const Classes *classes) {
        const Class *class = NULL;
        MatchFacts all, trusted;

        /* A client whose executable cannot be read matches no Executable=. */
        if (classes->any_executable)
                (void) peer_read_executable(&c->peer);
        if (classes->any_match) {
                match_facts_all(c->peer.cgroup, c->peer.uid, c->peer.executable, &all);
                match_facts_trusted(c->peer.cgroup, believed(c), c->peer.uid, &trusted);
                origin_add_labels(c->group->origin, &all);
                origin_add_trusted_labels(c->group->origin, believed(c), &trusted);
                class = classes_match(classes, &all, &trusted);
        }
        take_class(class, &all, &c->advised, &c->advised_detail);
}

/* Matches by the client's user. The group has that user's class while all its processes are the user's. So a user keeps
 * these limits when another user's process comes into the group. */
static void match_bound(Client *c, const Classes *classes) {
        const Group *g = c->group;
        const Class *class = NULL;
        MatchFacts facts;

        if (classes->any_match && g->origin) {
                match_facts_trusted(g->origin->path, named_by_root(g->origin), c->peer.uid, &facts);
                origin_add_trusted_labels(g->origin, named_by_root(g->origin), &facts);
                class = classes_match(classes, &facts, NULL);
                if (class && settings_has(&g->match, SETTINGS_CLASS) && streq(class->name, g->match.class))
                        class = NULL;
        }
        take_class(class, &facts, &c->bound, &c->bound_detail);
}

void client_match(Client *c) {
        const Classes *classes = &c->manager->config->classes;

        match_advised(c, classes);
        match_bound(c, classes);
}
