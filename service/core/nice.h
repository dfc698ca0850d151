/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Nice: the kernel's CPU priority of a process, for PolicySettings.cpu_priority
 *
 * The kernel does not tell when it changes. So it is read when a process becomes an entity, and again with the look for
 * stopped processes (STALL_NS, STALL_NICE_LOOKS at a time) while an entity waits on a device whose policy
 * goes by processes. The priority of the process's first thread counts, which `renice` and `chrt` change by default.
 */

#include "entity.h"

/* Reads the priority of the entity's client. Returns whether it changed; one that cannot be read stays as it was. */
bool nice_look(Entity *e);
