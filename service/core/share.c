/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Shares
 */

#include <utlist.h>

#include "share.h"
#include "turn.h"

static Share *share_find(const Group *g, const Device *d) {
        Share *s;

        DL_FOREACH2(g->shares, s, group_next)
                if (s->device == d)
                        return s;
        return NULL;
}

/* A cgroup that is made anew under the same name takes over the debt of the former one. All nodes below one share
 * belong to one cgroup or are jobs, so the last part of the name tells them apart. */
static PolicyNodeSettings share_settings(const Share *s) {
        PolicyNodeSettings settings = settings_node(&s->group->resolved.policy);
        const char *name = s->group->name, *slash = s->group->kind == GROUP_CGROUP ? strrchr(name, '/') : NULL;

        settings.name = slash ? slash + 1 : name;
        return settings;
}

static bool share_is_limited(const Share *s) {
        return (s->parent && s->parent->limited) || (s->own && s->group->resolved.policy.max > 0);
}

static PolicyNode *share_parent_node(const Share *s) {
        return s->parent ? s->parent->node : NULL;
}

static int share_new(Group *g, Device *d, Share *parent, Share **ret) {
        Share *s = calloc(1, sizeof(*s));

        if (!s)
                return -ENOMEM;
        *s = (Share){
                        .group = g,
                        .device = d,
                        .parent = parent,
                        .depth = parent ? parent->depth + 1 : 1,
                        .n_refs = 1,
        };
        s->own = s->depth <= POLICY_DEPTH_MAX;
        s->node = share_parent_node(s);
        if (s->own) {
                PolicyNodeSettings settings = share_settings(s);
                int r = d->ops->node_new(d->policy, share_parent_node(s), &settings, now_ns(), &s->node);
                if (r < 0) {
                        free(s);
                        return r;
                }
        }
        s->limited = share_is_limited(s);
        DL_APPEND2(d->shares, s, device_prev, device_next);
        DL_APPEND2(g->shares, s, group_prev, group_next);
        *ret = s;
        return 0;
}

/* Recurses as deep as the groups are nested, which is as deep as their paths. */
int share_get(Group *g, Device *d, Share **ret) {
        Share *s = share_find(g, d), *parent = NULL;

        if (s) {
                s->n_refs++;
                *ret = s;
                return 0;
        }
        if (g->parent) {
                int r = share_get(g->parent, d, &parent);
                if (r < 0)
                        return r;
        }
        int r = share_new(g, d, parent, ret);
        if (r < 0 && parent)
                share_put(parent);
        return r;
}

Share *share_put(Share *s) {
        while (s && --s->n_refs == 0) {
                Share *parent = s->parent;

                if (s->own)
                        s->device->ops->node_free(s->node, now_ns());
                DL_DELETE2(s->device->shares, s, device_prev, device_next);
                DL_DELETE2(s->group->shares, s, group_prev, group_next);
                free(s);
                s = parent;
        }
        return NULL;
}

/* Parents come before their children. */
static void shares_note_limits(Device *d) {
        Share *s;

        DL_FOREACH2(d->shares, s, device_next)
                s->limited = share_is_limited(s);
        entities_note_limits(d);
}

void shares_configure(Group *g) {
        Share *s;

        DL_FOREACH2(g->shares, s, group_next) {
                PolicyNodeSettings settings = share_settings(s);

                if (!s->own)
                        continue;
                s->device->ops->node_configure(s->node, &settings, now_ns());
                if (s->limited != share_is_limited(s))
                        shares_note_limits(s->device);
                device_touch(s->device);
        }
}

/* --- another policy --- */

void shares_drop(Device *d, const PolicyOps *ops) {
        Share *last = d->shares ? d->shares->device_prev : NULL, *s = last;

        /* Goes backwards, so that children come first. */
        while (s) {
                if (s->own && s->next)
                        ops->node_free(s->next, now_ns());
                s->next = NULL;
                s = s == d->shares ? NULL : s->device_prev;
        }
}

int shares_copy(Device *d, const PolicyOps *ops, Policy *p) {
        Share *s;

        DL_FOREACH2(d->shares, s, device_next) {
                PolicyNodeSettings settings = share_settings(s);

                s->next = s->parent ? s->parent->next : NULL;
                if (!s->own)
                        continue;
                int r = ops->node_new(p, s->next, &settings, now_ns(), &s->next);
                if (r < 0) {
                        s->next = NULL;
                        shares_drop(d, ops);
                        return r;
                }
        }
        return 0;
}

void shares_switch(Device *d, const PolicyOps *former) {
        Share *s;

        DL_FOREACH2(d->shares, s, device_next) {
                PolicyNode *node = s->node;

                s->node = s->next;
                s->next = node;
        }
        shares_drop(d, former);
}
