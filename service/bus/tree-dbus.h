/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The tree of objects: what sd-bus would answer by itself, but in one go, however many there are
 *
 * GetManagedObjects() of the manager's object, and Introspect() of the objects that have all devices, groups, clients
 * or queues below them. Single objects, and everything else of these interfaces, sd-bus answers.
 */

#include <systemd/sd-bus.h>

#include "service/core/manager.h"

/* Called by a filter. Returns what a handler returns, or 0 when the message is none of these calls. */
int tree_answer(Manager *m, sd_bus_message *message);
