/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Announcements: what the observers are told, as signals on the bus
 *
 * Added and removed objects, and PropertiesChanged. Changed settings of queues are told when nothing else is to
 * be done (tell.h).
 */

#include "service/core/manager.h"

/* From now on; the manager has a bus. */
int announce_attach(Manager *m);
