/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Observers: what has happened to objects, told to those who want to know
 *
 * The objects say what happened, once, and name nobody. An Observer is a const table of functions, of which any
 * may be NULL, on the manager's list. Observers are told in the order in which they were added, inside of the
 * event. They must not make or free objects.
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
} ClientChange;

typedef enum QueueChange {
        QUEUE_SETTINGS = 1 << 0,
        QUEUE_SUSPENSION = 1 << 1,
} QueueChange;

typedef enum GroupChange {
        GROUP_SETTINGS = 1 << 0,
        GROUP_PARENT = 1 << 1,
        GROUP_SUSPENSION = 1 << 2,
        GROUP_FROZEN = 1 << 3, /* by Freeze= */
} GroupChange;

typedef enum DeviceChange {
        DEVICE_POLICY = 1 << 0, /* the policy, or its parameters */
        DEVICE_TUNING = 1 << 1, /* how holds are carried out, and how time is counted */
} DeviceChange;

typedef struct ObserverOps {
        void (*client_added)(Client *c, void *userdata);
        void (*client_removed)(Client *c, void *userdata);
        void (*client_changed)(Client *c, unsigned changes, void *userdata);

        void (*queue_added)(Queue *q, void *userdata);
        void (*queue_removed)(Queue *q, void *userdata);
        void (*queue_changed)(Queue *q, unsigned changes, void *userdata);

        void (*group_added)(Group *g, void *userdata);
        void (*group_removed)(Group *g, void *userdata);
        void (*group_changed)(Group *g, unsigned changes, void *userdata);

        void (*device_added)(Device *d, void *userdata);
        void (*device_removed)(Device *d, void *userdata);
        void (*device_changed)(Device *d, unsigned changes, void *userdata);
        /* `e` lost the device to `by`; NULL: to somebody who was granted before. When all verdicts are written. */
        void (*device_preempted)(Device *d, const Entity *e, const Entity *by, void *userdata);

        void (*degraded_changed)(Manager *m, void *userdata);
} ObserverOps;

typedef struct Observer Observer;

/* `userdata` has to live as long as the manager. */
int observer_add(Manager *m, const ObserverOps *ops, void *userdata);
void observers_free(Manager *m);

void observers_client_added(Client *c);
void observers_client_removed(Client *c);
void observers_client_changed(Client *c, unsigned changes);
void observers_queue_added(Queue *q);
void observers_queue_removed(Queue *q);
void observers_queue_changed(Queue *q, unsigned changes);
void observers_group_added(Group *g);
void observers_group_removed(Group *g);
void observers_group_changed(Group *g, unsigned changes);
void observers_device_added(Device *d);
void observers_device_removed(Device *d);
void observers_device_changed(Device *d, unsigned changes);
void observers_device_preempted(Device *d, const Entity *e, const Entity *by);
void observers_degraded_changed(Manager *m);
