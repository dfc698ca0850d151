/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Follow: moves clients to the group of their cgroup
 *
 * While there are clients, the hierarchy is watched for processes that change their cgroup (how:
 * cgroup/cgroup-watch.h). A client whose process changed its cgroup goes to the new group at once. Without clients
 * nothing is watched. Where there is no hierarchy to watch (a container without cgroupfs), a client stays in the group
 * that it registered in; where the kernel's limit on watches is reached, Degraded says so.
 *
 * A restart needs none of this: a client is adopted into the group of its cgroup at that time.
 */

#include "manager.h"

/* Observes the clients until the manager ends. Call it before any other observer is added: a new client is followed
 * before the others are told of it. */
int follow_attach(Manager *m);

Follow *follow_free(Follow *f); /* freed last: see cgroup-watch.h */
