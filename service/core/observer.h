/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Observers: what has happened to objects, told to those who want to know
 *
 * The objects say what happened, once, and name nobody. An Observer is a const table of functions, of which any
 * may be NULL, on the manager's list. Observers are told in the order in which they were added, inside of the
 * event. They must not make or free objects. The recorder is one, and each room above the objects has one: enforce,
 * state and bus, in this order.
 *
 * An object that is said to be added is complete. One that is said to be removed is still complete, and in the
 * manager's tables. An observer is not told of what was there before it was added.
 *
 * Thread safety: none; the event loop's thread only.
 */

#include "device.h"

/* What of an object has changed: any of them, at once. */
typedef enum ClientChange {
        CLIENT_SETTINGS = 1 << 0,   /* its resolved settings, or where they come from */
        CLIENT_GROUP = 1 << 1,      /* it belongs to another group */
        CLIENT_SUSPENSION = 1 << 2, /* by itself, or by a group above it */
        CLIENT_FROZEN = 1 << 3,     /* its cgroup is frozen, or thawed */
        CLIENT_PRIVILEGED = 1 << 4, /* what the holder does with it */
        CLIENT_SUSPENDED = 1 << 5,  /* it itself was suspended, or resumed */
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
        GROUP_SETTLED = 1 << 6, /* its settings, and those of all that is in it */
        GROUP_KEPT = 1 << 7,    /* what of it has to survive a restart: what was set for it */
} GroupChange;

typedef enum DeviceChange {
        DEVICE_POLICY = 1 << 0, /* the policy, or its parameters */
        DEVICE_TUNING = 1 << 1, /* how holds are carried out, and how time is counted */
} DeviceChange;

typedef struct ObserverOps {
        /* It is complete, and nobody has seen it. What it needs to survive a restart is made now; a negative errno
         * ends it. */
        int (*client_made)(Client *c, void *userdata);
        void (*client_added)(Client *c, void *userdata);
        void (*client_removed)(Client *c, void *userdata);
        void (*client_changed)(Client *c, unsigned changes, void *userdata);
        /* It has held slots, and they stay held until then. */
        void (*client_lease_renewed)(Client *c, uint64_t until_ns, void *userdata);

        void (*queue_added)(Queue *q, void *userdata);
        void (*queue_removed)(Queue *q, void *userdata);
        /* Its slot is free again, and it is in no table. */
        void (*queue_gone)(Queue *q, void *userdata);
        void (*queue_changed)(Queue *q, unsigned changes, void *userdata);
        /* Its verdict is about to change, or by which rung it is held. */
        void (*queue_turning)(Queue *q, void *userdata);
        /* Its verdict has changed: the word is written. */
        void (*queue_turned)(Queue *q, void *userdata);

        void (*entity_held)(Entity *e, bool held, uint64_t now_ns, void *userdata);
        /* It is held, and has something in flight that it had not before. */
        void (*entity_ready)(Entity *e, void *userdata);
        /* It is looked at, at a time that was asked for: its review_at, or overdue.look_at. */
        void (*entity_reviewed)(Entity *e, uint64_t now_ns, void *userdata);

        /* It has no queue any more, and is in no policy. What it used is in `usage`. */
        void (*entity_removed)(Entity *e, void *userdata);

        void (*group_added)(Group *g, void *userdata);
        void (*group_removed)(Group *g, void *userdata);
        void (*group_changed)(Group *g, unsigned changes, void *userdata);

        void (*device_added)(Device *d, void *userdata);
        void (*device_removed)(Device *d, void *userdata);
        void (*device_changed)(Device *d, unsigned changes, void *userdata);
        /* `e` lost the device to `by`; NULL: to somebody who was granted before. When all verdicts are written. */
        void (*device_preempted)(Device *d, const Entity *e, const Entity *by, void *userdata);

        /* All verdicts of this turn of the loop are written. */
        void (*turn_ended)(Manager *m, void *userdata);
        void (*job_added)(Job *j, void *userdata);
        /* It is in no table. */
        void (*job_gone)(Job *j, void *userdata);

        /* Something that is nobody's but the manager's has to survive a restart, and has changed: settings of devices,
         * the next numbers. */
        void (*manager_changed)(Manager *m, void *userdata);
        void (*degraded_changed)(Manager *m, void *userdata);
        /* The end: first all objects are still there, then all are gone. */
        void (*manager_closing)(Manager *m, void *userdata);
        void (*manager_closed)(Manager *m, void *userdata);
} ObserverOps;

typedef struct Observer Observer;

/* `userdata` has to live as long as the manager. */
int observer_add(Manager *m, const ObserverOps *ops, void *userdata);
void observers_free(Manager *m);

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
