/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include <utlist.h>

#include "client.h"
#include "device.h"
#include "group.h"
#include "job.h"
#include "observer.h"
#include "origin.h"
#include "queue.h"

struct Observer {
        const ObserverOps *ops;
        void *userdata;
        Observer *prev, *next;
};

int observer_add(Manager *m, const ObserverOps *ops, void *userdata) {
        Observer *o = malloc(sizeof(*o));
        if (!o)
                return -ENOMEM;
        *o = (Observer){.ops = ops, .userdata = userdata};
        DL_APPEND(m->observers, o);
        return 0;
}

void observers_free(Manager *m) {
        Observer *o = TAKE_PTR(m->observers);

        while (o) {
                Observer *next = o->next;

                free(o);
                o = next;
        }
}

#define TELL(m, event, ...)                                                                                            \
        do {                                                                                                           \
                const Observer *o;                                                                                     \
                DL_FOREACH((m)->observers, o)                                                                          \
                        if (o->ops->event)                                                                             \
                                o->ops->event(__VA_ARGS__, o->userdata);                                               \
        } while (false)

int observers_client_made(Client *c) {
        const Observer *o;

        DL_FOREACH(c->manager->observers, o) {
                int r = o->ops->client_made ? o->ops->client_made(c, o->userdata) : 0;
                if (r < 0)
                        return r;
        }
        return 0;
}

void observers_client_added(Client *c) {
        TELL(c->manager, client_added, c);
}

void observers_client_removed(Client *c) {
        TELL(c->manager, client_removed, c);
}

void observers_client_changed(Client *c, unsigned changes) {
        TELL(c->manager, client_changed, c, changes);
}

void observers_client_lease_renewed(Client *c, uint64_t until_ns) {
        TELL(c->manager, client_lease_renewed, c, until_ns);
}

void observers_queue_added(Queue *q) {
        TELL(q->manager, queue_added, q);
}

void observers_queue_removed(Queue *q) {
        TELL(q->manager, queue_removed, q);
}

void observers_queue_gone(Queue *q) {
        TELL(q->manager, queue_gone, q);
}

void observers_queue_changed(Queue *q, unsigned changes) {
        TELL(q->manager, queue_changed, q, changes);
}

void observers_queue_turning(Queue *q) {
        TELL(q->manager, queue_turning, q);
}

void observers_queue_turned(Queue *q) {
        TELL(q->manager, queue_turned, q);
}

void observers_entity_held(Entity *e, bool held, uint64_t now_ns) {
        TELL(e->device->manager, entity_held, e, held, now_ns);
}

void observers_entity_ready(Entity *e) {
        TELL(e->device->manager, entity_ready, e);
}

void observers_entity_reviewed(Entity *e, uint64_t now_ns) {
        TELL(e->device->manager, entity_reviewed, e, now_ns);
}

void observers_entity_removed(Entity *e) {
        TELL(e->device->manager, entity_removed, e);
}

void observers_totals_saved(Manager *m, uint64_t now_ns) {
        TELL(m, totals_saved, m, now_ns);
}

void observers_origin_asks(Origin *origin) {
        TELL(origin->manager, origin_asks, origin);
}

void observers_origin_gone(Origin *origin) {
        TELL(origin->manager, origin_gone, origin);
}

void observers_group_added(Group *g) {
        TELL(g->manager, group_added, g);
}

void observers_group_removed(Group *g) {
        TELL(g->manager, group_removed, g);
}

void observers_group_changed(Group *g, unsigned changes) {
        TELL(g->manager, group_changed, g, changes);
}

void observers_device_added(Device *d) {
        TELL(d->manager, device_added, d);
}

void observers_device_removed(Device *d) {
        TELL(d->manager, device_removed, d);
}

void observers_device_changed(Device *d, unsigned changes) {
        TELL(d->manager, device_changed, d, changes);
}

void observers_device_preempted(Device *d, const Entity *e, const Entity *by) {
        TELL(d->manager, device_preempted, d, e, by);
}

void observers_turn_ended(Manager *m) {
        TELL(m, turn_ended, m);
}

void observers_job_added(Job *j) {
        TELL(j->manager, job_added, j);
}

void observers_job_gone(Job *j) {
        TELL(j->manager, job_gone, j);
}

void observers_manager_changed(Manager *m) {
        TELL(m, manager_changed, m);
}

void observers_degraded_changed(Manager *m) {
        TELL(m, degraded_changed, m);
}

void observers_manager_closing(Manager *m) {
        TELL(m, manager_closing, m);
}

void observers_manager_closed(Manager *m) {
        TELL(m, manager_closed, m);
}
