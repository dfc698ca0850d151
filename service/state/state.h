/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * State: saves changes of objects, as observers are told, so that they survive a restart of the service
 */

#include "service/core/manager.h"

/* Attaches the room until the manager ends. Call it before the first client. */
int state_attach(Manager *m);
