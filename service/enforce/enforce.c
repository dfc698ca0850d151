/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Passes events of objects on to the means of this room
 */

#include "enforce.h"
#include "freeze.h"
#include "halt.h"
#include "overdue.h"
#include "privileged.h"
#include "service/core/ladder.h"
#include "service/core/observer.h"

static void on_client_added(Client *c, void *userdata) {
        halt_join(c);
}

static void on_client_removed(Client *c, void *userdata) {
        privileged_client_gone(c);
        halt_leave(c);
}

static void on_client_changed(Client *c, unsigned changes, void *userdata) {
        if (changes & CLIENT_GROUP)
                halt_join(c);
}

static void on_client_lease_renewed(Client *c, uint64_t until_ns, void *userdata) {
        privileged_renew(c, until_ns);
}

static void on_queue_turning(Queue *q, void *userdata) {
        privileged_touch(q->client);
}

static void on_queue_turned(Queue *q, void *userdata) {
        freeze_queue_turned(q);
}

static void on_entity_held(Entity *e, bool held, uint64_t now_ns, void *userdata) {
        if (overdue_set_held(e, held, now_ns))
                freeze_group_changed(e->group, false);
}

static void on_entity_ready(Entity *e, void *userdata) {
        overdue_ready_while_held(e);
}

static void on_entity_reviewed(Entity *e, uint64_t now_ns, void *userdata) {
        if (overdue_look(e, now_ns))
                freeze_group_changed(e->group, false);
}

static void on_group_removed(Group *g, void *userdata) {
        freeze_group_gone(g);
}

/* A group that only gets another parent has no clients yet, or is about to end. */
static void on_group_changed(Group *g, unsigned changes, void *userdata) {
        if (changes & GROUP_SETTLED)
                overdue_reconsider(g);
        if (changes & (GROUP_JOINED | GROUP_LEFT | GROUP_SETTLED) ||
                        (changes & GROUP_SUSPENSION && !(changes & GROUP_PARENT)))
                freeze_group_changed(g, changes & GROUP_JOINED);
        if (changes & GROUP_FREEZER)
                halts_reconsider(g->manager);
}

static void on_turn_ended(Manager *m, void *userdata) {
        privileged_flush(m);
}

static void on_manager_closed(Manager *m, void *userdata) {
        privileged_done(m);
        freeze_free(m);
        m->halts = halts_free(m->halts);
}

static const ObserverOps enforce_ops = {
                .client_added = on_client_added,
                .client_removed = on_client_removed,
                .client_changed = on_client_changed,
                .client_lease_renewed = on_client_lease_renewed,
                .queue_turning = on_queue_turning,
                .queue_turned = on_queue_turned,
                .entity_held = on_entity_held,
                .entity_ready = on_entity_ready,
                .entity_reviewed = on_entity_reviewed,
                .group_removed = on_group_removed,
                .group_changed = on_group_changed,
                .turn_ended = on_turn_ended,
                .manager_closed = on_manager_closed,
};

static const PrivilegeOps privilege_ops = {
                .is_possible = privileged_is_possible,
                .costs = privileged_costs,
};

int enforce_attach(Manager *m) {
        int r = observer_add(m, &enforce_ops, m);
        if (r < 0)
                return r;
        m->privilege = &privilege_ops;
        return privileged_init(m);
}
