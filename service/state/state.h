/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What survives a restart of the service: written down as the observers tell that it changes
 */

#include "service/core/manager.h"

/* From now on, to the manager's end. Before the first client. */
int state_attach(Manager *m);
