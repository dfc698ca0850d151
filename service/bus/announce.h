/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Announce: signals on the bus, from what observers are told
 *
 * Sends signals for added and removed objects, and PropertiesChanged. Changed settings of queues are told when the loop
 * has nothing else to do (tell.h).
 */

#include "service/core/manager.h"

/* Begins to send signals. The manager must have a bus. */
int announce_attach(Manager *m);
