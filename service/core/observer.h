/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Observers: told what has happened to objects
 *
 * Objects report each event once, and do not know the observers. An Observer is a const table of functions on the
 * manager's list; any function may be NULL. Observers are told in the order in which they were added, inside of the
 * event. They must not make or free objects. follow and the recorder are observers, and each room above the objects has
 * one: enforce, state and bus, in this order.
 *
 * At x_added() the object is complete. At x_removed() it is still complete, and in the manager's tables. An observer is
 * not told of objects that are older than itself.
 *
 * Thread safety: none; the event loop's thread only.
 */

#include "device.h"
#include "service/settings/xsched-conf.h"

/* Which part of an object has changed: one or more flags. */
typedef enum ClientChange {
        CLIENT_SETTINGS = 1 << 0,   /* its resolved settings, or where they come from */
        CLIENT_GROUP = 1 << 1,      /* it belongs to another group */
        CLIENT_SUSPENSION = 1 << 2, /* it, or a group above it, was suspended or resumed */
        CLIENT_FROZEN = 1 << 3,     /* its cgroup is frozen, or thawed */
        CLIENT_PRIVILEGED = 1 << 4, /* the state of its privileged hold */
        CLIENT_SUSPENDED = 1 << 5,  /* the client itself was suspended or resumed */
} ClientChange;

typedef enum QueueChange {
        QUEUE_SETTINGS = 1 << 0,
        QUEUE_SUSPENSION = 1 << 1,
} QueueChange;

typedef enum GroupChange {
        GROUP_SETTINGS = 1 << 0,
        GROUP_PARENT = 1 << 1,
        GROUP_SUSPENSION = 1 << 2,
        GROUP_FROZEN = 1 << 3,  /* by Freeze= */
        GROUP_JOINED = 1 << 4,  /* a client has come */
        GROUP_LEFT = 1 << 5,    /* a client has gone */
        GROUP_SETTLED = 1 << 6, /* its settings, and those of its clients and queues, are resolved */
        GROUP_KEPT = 1 << 7,    /* its settings that have to survive a restart */
        GROUP_FREEZER = 1 << 8, /* the service begins to freeze its unit, or keeps it frozen no longer */
} GroupChange;

typedef enum DeviceChange {
        DEVICE_POLICY = 1 << 0, /* the policy, or its parameters */
        DEVICE_TUNING = 1 << 1, /* how holds are carried out, and how time is counted */
} DeviceChange;

typedef struct ObserverOps {
        /* The client is complete and not in use yet. Makes what it needs to survive a restart; a negative errno ends
         * the client. */
        int (*client_made)(Client *c, void *userdata);
        void (*client_added)(Client *c, void *userdata);
        void (*client_removed)(Client *c, void *userdata);
        void (*client_changed)(Client *c, unsigned changes, void *userdata);
        /* The client has held slots, which stay held until `until_ns`. Told of clients that had a privileged hold. */
        void (*client_lease_renewed)(Client *c, uint64_t until_ns, void *userdata);

        void (*queue_added)(Queue *q, void *userdata);
        void (*queue_removed)(Queue *q, void *userdata);
        /* The queue's slot is free again, and the queue is in no table. */
        void (*queue_gone)(Queue *q, void *userdata);
        void (*queue_changed)(Queue *q, unsigned changes, void *userdata);
        /* The queue's verdict, or the rung that holds it, is about to change. Told while a queue of its client needs a
         * privileged hold, before or after the change. */
        void (*queue_turning)(Queue *q, void *userdata);

        /* These three are told while units may be frozen: observers_hear_holds(). The first: the queue's verdict has
         * changed, and its word is written. */
        void (*queue_turned)(Queue *q, void *userdata);
        void (*entity_held)(Entity *e, bool held, uint64_t now_ns, void *userdata);
        /* The held entity has launches in flight that it did not have before. */
        void (*entity_ready)(Entity *e, void *userdata);
        /* The entity's review_at, or overdue.look_at, has come. */
        void (*entity_reviewed)(Entity *e, uint64_t now_ns, void *userdata);

        /* Usage of the entities of a device was saved in the totals. Comes now and then, while something runs. */
        void (*totals_saved)(Manager *m, uint64_t now_ns, void *userdata);

        /* The entity has no queue, and is in no policy. Its usage is in `usage`. */
        void (*entity_removed)(Entity *e, void *userdata);

        /* The origin asks for systemd's facts of its unit; the observer calls origin_take_facts() later. */
        void (*origin_asks)(struct Origin *o, void *userdata);
        /* It is in no table. */
        void (*origin_gone)(struct Origin *o, void *userdata);

        void (*group_added)(Group *g, void *userdata);
        void (*group_removed)(Group *g, void *userdata);
        void (*group_changed)(Group *g, unsigned changes, void *userdata);

        void (*device_added)(Device *d, void *userdata);
        void (*device_removed)(Device *d, void *userdata);
        void (*device_changed)(Device *d, unsigned changes, void *userdata);
        /* `e` lost the device to `by`, or (NULL) to an entity that was granted before. Called when all verdicts are
         * written. */
        void (*device_preempted)(Device *d, const Entity *e, const Entity *by, void *userdata);

        /* All verdicts of this turn of the loop are written. Told when turn_ask_end() was called since the last time.
         */
        void (*turn_ended)(Manager *m, void *userdata);
        void (*job_added)(Job *j, void *userdata);
        /* It is in no table. */
        void (*job_gone)(Job *j, void *userdata);

        /* State of the manager itself that has to survive a restart has changed: settings of devices, the next ids. */
        void (*manager_changed)(Manager *m, void *userdata);
        void (*degraded_changed)(Manager *m, void *userdata);
        /* The service ends: at `closing` all objects are still there, at `closed` all are freed. */
        void (*manager_closing)(Manager *m, void *userdata);
        void (*manager_closed)(Manager *m, void *userdata);
} ObserverOps;

typedef struct Observer Observer;

/* `userdata` has to live as long as the manager. */
int observer_add(Manager *m, const ObserverOps *ops, void *userdata);
void observers_free(Manager *m);

/* Whether a hold can lead to a frozen unit: a class has Freeze=, or a unit is frozen, or about to be thawed. */
static inline bool observers_hear_holds(const Manager *m) {
        return m->config->classes.any_freeze || m->freezers;
}

int observers_client_made(Client *c);
void observers_client_added(Client *c);
void observers_client_removed(Client *c);
void observers_client_changed(Client *c, unsigned changes);
void observers_client_lease_renewed(Client *c, uint64_t until_ns);
void observers_queue_added(Queue *q);
void observers_queue_removed(Queue *q);
void observers_queue_gone(Queue *q);
void observers_queue_changed(Queue *q, unsigned changes);
void observers_queue_turning(Queue *q);
void observers_queue_turned(Queue *q);
void observers_entity_held(Entity *e, bool held, uint64_t now_ns);
void observers_entity_ready(Entity *e);
void observers_entity_reviewed(Entity *e, uint64_t now_ns);
void observers_entity_removed(Entity *e);
void observers_totals_saved(Manager *m, uint64_t now_ns);
void observers_origin_asks(struct Origin *origin);
void observers_origin_gone(struct Origin *origin);
void observers_group_added(Group *g);
void observers_group_removed(Group *g);
void observers_group_changed(Group *g, unsigned changes);
void observers_device_added(Device *d);
void observers_device_removed(Device *d);
void observers_device_changed(Device *d, unsigned changes);
void observers_device_preempted(Device *d, const Entity *e, const Entity *by);
void observers_turn_ended(Manager *m);
void observers_job_added(Job *j);
void observers_job_gone(Job *j);
void observers_manager_changed(Manager *m);
void observers_degraded_changed(Manager *m);
void observers_manager_closing(Manager *m);
void observers_manager_closed(Manager *m);
