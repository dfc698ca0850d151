/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Feeds
 */

#include "feed.h"
#include "common/array.h"

static const TapeKind kinds[_POLICY_EVENT_MAX] = {
                [POLICY_EVENT_CONFIGURED] = TAPE_CONFIGURE,
                [POLICY_EVENT_NODE_NEW] = TAPE_NODE,
                [POLICY_EVENT_NODE_CONFIGURED] = TAPE_NODE_SET,
                [POLICY_EVENT_NODE_FREED] = TAPE_NODE_GONE,
                [POLICY_EVENT_ENTITY_NEW] = TAPE_ENTITY,
                [POLICY_EVENT_ENTITY_CONFIGURED] = TAPE_ENTITY_SET,
                [POLICY_EVENT_ENTITY_MOVED] = TAPE_ENTITY_MOVE,
                [POLICY_EVENT_ENTITY_FREED] = TAPE_ENTITY_GONE,
                [POLICY_EVENT_READY] = TAPE_READY,
                [POLICY_EVENT_IDLE] = TAPE_IDLE,
                [POLICY_EVENT_DRAINED] = TAPE_DRAINED,
                [POLICY_EVENT_TAIL] = TAPE_TAIL,
                [POLICY_EVENT_TAIL_HAD] = TAPE_TAIL_HAD,
                [POLICY_EVENT_OUTSIDE] = TAPE_OUTSIDE,
                [POLICY_EVENT_DISPATCHED] = TAPE_DISPATCH,
};

static void add_grant(TapeFeed *f, const PolicyEvent *e) {
        TapeGrant *grants = array_grow(f->grants, f->n_grants, sizeof(*grants));

        if (!grants) {
                f->n_lost++;
                return;
        }
        f->grants = grants;
        f->grants[f->n_grants++] = (TapeGrant){.entity = e->entity, .grant = e->grant};
}

static void dispatched(TapeFeed *f, TapeRecord *r) {
        r->grants = f->grants;
        r->n_grants = f->n_grants;
        if (f->n_lost > 0)
                *r = (TapeRecord){.kind = TAPE_LOST, .lost = f->n_lost};
        f->ops->record(r, f->userdata);
        free(f->grants);
        f->grants = NULL;
        f->n_grants = f->n_lost = 0;
}

static void on_event(const PolicyEvent *e, void *userdata) {
        TapeFeed *f = userdata;

        if (e->kind == POLICY_EVENT_GRANT) {
                add_grant(f, e);
                return;
        }

        TapeRecord r = {
                        .kind = kinds[e->kind],
                        .device = f->device,
                        .at_ns = e->at_ns,
                        .entity = e->entity,
                        .node = e->node,
                        .parent = e->parent,
                        .level = e->level,
                        .had_ns = e->had_ns,
                        .wake_ns = e->wake_ns,
                        .usage = e->usage,
        };
        if (e->config)
                r.config = *e->config;
        if (e->settings)
                r.settings = *e->settings;
        if (e->node_settings) {
                r.node_settings = *e->node_settings;
                r.name = (char *) e->node_settings->name; /* not freed: this record is not of tape_read() */
        }
        if (e->kind == POLICY_EVENT_ENTITY_NEW)
                f->ops->label(e->owner, &r);
        if (e->kind == POLICY_EVENT_DISPATCHED)
                dispatched(f, &r);
        else
                f->ops->record(&r, f->userdata);
}

void tape_feed_init(TapeFeed *f, uint64_t device, const TapeFeedOps *ops, void *userdata) {
        *f = (TapeFeed){
                        .ops = ops,
                        .userdata = userdata,
                        .device = device,
                        .tap = {.event = on_event, .userdata = f},
        };
}

void tape_feed_done(TapeFeed *f) {
        free(f->grants);
        *f = (TapeFeed){0};
}

void tape_feed_begin(TapeFeed *f, Policy *p, const PolicyOps *ops, const PolicyConfig *config, uint64_t now_ns) {
        const TapeRecord r = {
                        .kind = TAPE_POLICY,
                        .device = f->device,
                        .at_ns = now_ns,
                        .name = (char *) ops->name,
                        .config = *config,
        };

        f->ops->record(&r, f->userdata);
        policy_tap(p, &f->tap);
}

void tape_feed_break(TapeFeed *f, Policy *p) {
        f->ops->record(&(TapeRecord){.kind = TAPE_LOST, .lost = 1}, f->userdata);
        policy_tap(p, &f->tap);
}
