/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Following clients from cgroup to cgroup
 *
 * While there are clients, the hierarchy is watched for processes that are put elsewhere (cgroup/cgroup-watch.h says
 * how that is seen), and a client whose process was goes to the group of its new cgroup at once. Without clients
 * nothing is watched. Where there is no hierarchy to watch (a container without cgroupfs), a client stays in the group
 * that it registered in; where the kernel's limit on watches is reached, Degraded says so.
 *
 * Restarts need nothing of this: a client is adopted into the group of the cgroup in which it is then.
 */

#include "manager.h"

/* After a client came or went. */
void follow_clients_changed(Manager *m);
Follow *follow_free(Follow *f); /* the last: see cgroup-watch.h */
