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

Manager *manager_make(void);
Manager *manager_make_accounting(Accounting accounting);
/* A client in a cgroup of our choice; the process behind it is this one, or another. */
Process join(Manager *m, const char *cgroup, int priority);
Process join_pid(Manager *m, const char *cgroup, int priority, pid_t pid);
Process join_as(Manager *m, const char *cgroup, int priority, uid_t uid);
/* The process, or the queue, goes, and what it has launched is over. */
void leave(Process *p);
void release(Queue *q);
Queue *queue(Process *p, const char *device, int hint);
/* What a shim does around one launch. */
void begin(Queue *q);
void finish(Queue *q);

/* What it had in flight when it was held is over, and it waits at the gate with the rest. */
void drain(Queue *q);
/* The user's count of `what`. */
unsigned user_count(const Manager *m, uid_t uid, UserCount what);
/* As the gate sees it. */
bool held(const Queue *q);
uint32_t watch(const Queue *q);
/* Counts agree with what they count. */
void check(Manager *m);
