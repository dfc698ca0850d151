/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What the kernel's scheduler thinks of a process: PolicySettings.cpu_priority
 *
 * Nobody tells when it changes. So it is read when a process becomes an entity, and again with the look for stopped
 * processes (ARBITER_STALL_NS) while somebody waits on a device whose policy goes by processes. It is that of the
 * process's first thread: `renice` and `chrt` mean that one unless they are told otherwise.
 */

#include "client.h"

/* Reads it. Whether it is another than before; what cannot be read is as it was. */
bool nice_look(Client *c);
