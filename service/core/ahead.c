/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Fetches ahead
 */

#include "ahead.h"
#include "common/fetch.h"
#include "entity.h"
#include "numbers.h"

void ahead_fetch(Manager *m, uint64_t client_id) {
        const ClientPlace *p = client_place(m, client_id);

        if (client_id == m->last_edge)
                return; /* it is in the cache still */
        fetch_lines((uintptr_t) p->client, offsetof(Client, peer));
        fetch_lines(p->ahead.page + offsetof(PageHeader, dirty), PAGE_LINE);
        fetch_lines(p->ahead.slots, sizeof(Slot));
        fetch_lines(p->ahead.queue, offsetof(Queue, id));
        fetch_lines(p->ahead.page_slot + offsetof(PageSlot, outstanding),
                        sizeof(PageSlot) - offsetof(PageSlot, outstanding));
        fetch_lines(p->ahead.entity, offsetof(Entity, client));
        policy_fetch(p->ahead.policy);
}

void ahead_fetch_more(const Queue *q) {
        if (q->entity && q->entity->policy)
                policy_fetch_more(q->entity->policy);
}

void ahead_note(const Queue *q) {
        Client *c = q->client;

        c->manager->last_edge = c->id;
        client_place(c->manager, c->id)->ahead = (Ahead){
                        .page = (uintptr_t) c->page.header,
                        .slots = (uintptr_t) queue_slot(q),
                        .page_slot = (uintptr_t) q->page_slot,
                        .queue = (uintptr_t) q,
                        .entity = (uintptr_t) q->entity,
                        .policy = q->entity ? (uintptr_t) q->entity->policy : 0,
        };
}
