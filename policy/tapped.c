/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The calls of a policy's table, past its tap
 */

#include "choose.h"
#include "core.h"

/* Tells an event of an entity that has no further values. */
static void entity_tell(const PolicyEntity *e, PolicyEventKind kind, uint64_t now_ns) {
        tap_event(e->policy, &(PolicyEvent){.kind = kind, .at_ns = now_ns, .entity = e->id});
}

int tapped_configure(Policy *p, const PolicyConfig *config, uint64_t now_ns) {
        int r = core_configure(p, config, now_ns);

        if (unlikely(p->tap) && r >= 0)
                tap_event(p,
                                &(PolicyEvent){
                                                .kind = POLICY_EVENT_CONFIGURED,
                                                .at_ns = now_ns,
                                                .config = config,
                                });
        return r;
}

int tapped_node_new(Policy *p, PolicyNode *parent, const PolicyNodeSettings *s, uint64_t now_ns, PolicyNode **ret) {
        int r = core_node_new(p, parent, s, now_ns, ret);

        if (unlikely(p->tap) && r >= 0)
                tap_event(p,
                                &(PolicyEvent){
                                                .kind = POLICY_EVENT_NODE_NEW,
                                                .at_ns = now_ns,
                                                .node = (*ret)->id,
                                                .parent = (*ret)->parent->id,
                                                .node_settings = s,
                                });
        return r;
}

PolicyNode *tapped_node_free(PolicyNode *n, uint64_t now_ns) {
        const Policy *p = n->policy;
        uint64_t id = n->id;

        n = core_node_free(n, now_ns);
        if (unlikely(p->tap))
                tap_event(p,
                                &(PolicyEvent){
                                                .kind = POLICY_EVENT_NODE_FREED,
                                                .at_ns = now_ns,
                                                .node = id,
                                });
        return n;
}

void tapped_node_configure(PolicyNode *n, const PolicyNodeSettings *s, uint64_t now_ns) {
        core_node_configure(n, s, now_ns);
        if (unlikely(n->policy->tap))
                tap_event(n->policy,
                                &(PolicyEvent){
                                                .kind = POLICY_EVENT_NODE_CONFIGURED,
                                                .at_ns = now_ns,
                                                .node = n->id,
                                                .node_settings = s,
                                });
}

int tapped_entity_new(Policy *p, PolicyNode *node, void *owner, const PolicySettings *s, uint64_t now_ns,
                PolicyEntity **ret) {
        int r = core_entity_new(p, node, owner, s, now_ns, ret);

        if (unlikely(p->tap) && r >= 0)
                tap_event(p,
                                &(PolicyEvent){
                                                .kind = POLICY_EVENT_ENTITY_NEW,
                                                .at_ns = now_ns,
                                                .entity = (*ret)->id,
                                                .node = (*ret)->node->id,
                                                .owner = owner,
                                                .settings = &(*ret)->settings,
                                });
        return r;
}

/* The entity's usage counts up to this call, which is the last that can tell it. */
PolicyEntity *tapped_entity_free(PolicyEntity *e, uint64_t now_ns) {
        const Policy *p = e->policy;

        if (unlikely(p->tap)) {
                PolicyEvent event = {
                                .kind = POLICY_EVENT_ENTITY_FREED,
                                .at_ns = now_ns,
                                .entity = e->id,
                };

                core_entity_usage(e, now_ns, &event.usage);
                tap_event(p, &event);
        }
        return core_entity_free(e, now_ns);
}

void tapped_entity_configure(PolicyEntity *e, const PolicySettings *s, uint64_t now_ns) {
        core_entity_configure(e, s, now_ns);
        if (unlikely(e->policy->tap))
                tap_event(e->policy,
                                &(PolicyEvent){
                                                .kind = POLICY_EVENT_ENTITY_CONFIGURED,
                                                .at_ns = now_ns,
                                                .entity = e->id,
                                                .settings = &e->settings,
                                });
}

int tapped_entity_move(PolicyEntity *e, PolicyNode *to, uint64_t now_ns) {
        int r = core_entity_move(e, to, now_ns);

        if (unlikely(e->policy->tap) && r >= 0)
                tap_event(e->policy,
                                &(PolicyEvent){
                                                .kind = POLICY_EVENT_ENTITY_MOVED,
                                                .at_ns = now_ns,
                                                .entity = e->id,
                                                .node = e->node->id,
                                });
        return r;
}

void tapped_entity_ready(PolicyEntity *e, uint64_t now_ns) {
        core_entity_ready(e, now_ns);
        if (unlikely(e->policy->tap))
                entity_tell(e, POLICY_EVENT_READY, now_ns);
}

void tapped_entity_idle(PolicyEntity *e, uint64_t now_ns) {
        core_entity_idle(e, now_ns);
        if (unlikely(e->policy->tap))
                entity_tell(e, POLICY_EVENT_IDLE, now_ns);
}

void tapped_entity_drained(PolicyEntity *e, uint64_t now_ns) {
        core_entity_drained(e, now_ns);
        if (unlikely(e->policy->tap))
                entity_tell(e, POLICY_EVENT_DRAINED, now_ns);
}

void tapped_entity_tail(PolicyEntity *e, uint64_t now_ns) {
        core_entity_tail(e, now_ns);
        if (unlikely(e->policy->tap))
                entity_tell(e, POLICY_EVENT_TAIL, now_ns);
}

void tapped_entity_tail_had(PolicyEntity *e, uint64_t ns, uint64_t now_ns) {
        core_entity_tail_had(e, ns, now_ns);
        if (unlikely(e->policy->tap))
                tap_event(e->policy,
                                &(PolicyEvent){
                                                .kind = POLICY_EVENT_TAIL_HAD,
                                                .at_ns = now_ns,
                                                .entity = e->id,
                                                .had_ns = ns,
                                });
}

void tapped_outside(Policy *p, int level, uint64_t now_ns) {
        core_outside(p, level, now_ns);
        if (unlikely(p->tap))
                tap_event(p,
                                &(PolicyEvent){
                                                .kind = POLICY_EVENT_OUTSIDE,
                                                .at_ns = now_ns,
                                                .level = level,
                                });
}

uint64_t tapped_dispatch(Policy *p, uint64_t now_ns) {
        uint64_t wake = core_dispatch(p, now_ns);

        if (unlikely(p->tap))
                tap_event(p,
                                &(PolicyEvent){
                                                .kind = POLICY_EVENT_DISPATCHED,
                                                .at_ns = now_ns,
                                                .wake_ns = wake,
                                });
        return wake;
}
