/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The service's objects without a bus: real pages and the real policy; the test is the clients' side of the pages
 */

#include "service/core/arbiter.h"
#include "service/core/entity-facts.h"
#include "service/core/resolve.h"
#include "service/core/suspension.h"
#include "service/core/user.h"
#include "tests/lib/unit.h"

typedef struct Process {
        Client *client;
        ClientFds fds;
} Process;

/* What cgroup_directory() does; NULL: there is no hierarchy. With one, cgroup "", clients are moved to the real cgroup
 * of their process as soon as the event loop runs. */
extern int (*cgroup_directory_instead)(const char *cgroup, char **ret);

Manager *manager_make(void);
Manager *manager_make_accounting(Accounting accounting);
/* Makes a client in the given cgroup. Its process is the test's own, or another. */
Process join(Manager *m, const char *cgroup, int priority);
Process join_pid(Manager *m, const char *cgroup, int priority, pid_t pid);
Process join_as(Manager *m, const char *cgroup, int priority, uid_t uid);
/* Removes the process, or the queue; its launches have ended. */
void leave(Process *p);
void release(Queue *q);
Queue *queue(Process *p, const char *device, int hint);
Queue *queue_with(Process *p, const QueueParameters *parameters);
/* The calls that a shim makes before and after one launch. */
void begin(Queue *q);
void finish(Queue *q);
/* The same, in a turn that has not ended. Return whether the service hears of it. */
bool begin_in_turn(Queue *q);
bool finish_in_turn(Queue *q);

/* The client hints the time of the queue's next launch (WillLaunch). */
void expect(Queue *q, uint64_t at);
/* The held queue's launches in flight end, and its thread waits at the gate with the next one. */
void drain(Queue *q);
/* Changes a setting of all devices, as "xschedctl set" does. */
void configure_all(Manager *m, const char *key, uint64_t value);
/* Sets the device's costs as the queue's client reports them, whatever was learned of its owner before. */
void set_costs(Queue *q, uint64_t hold_ns, uint64_t release_ns);
/* The user's count of `what`. */
unsigned user_count(const Manager *m, uid_t uid, UserCount what);
/* Whether the gate holds the queue's launches. */
bool held(const Queue *q);
uint32_t watch(const Queue *q);
/* Checks that the manager's counts agree with its objects. */
void check(Manager *m);

/* A tenant of priority 10, and one that is usually lower, in groups of their own, with a queue each on the device "d"
 */
typedef struct Two {
        Manager *m;
        Process high, low;
        Queue *h, *l;
        Device *d;
        uint64_t due; /* when the test makes the next visit */
} Two;

/* NULL: a queue as queue() makes it. */
Two two_make(int low_priority, const QueueParameters *h, const QueueParameters *l);
void two_done(Two *t);
