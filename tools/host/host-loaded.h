/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What processes have loaded
 */

#include "host-scan.h"

/* What they have loaded, of those that are wanted. The calling process has no other threads. 0 or a negative errno. */
int host_read_loaded(HostProcesses *all, bool (*wanted)(const HostProcess *p, void *userdata), void *userdata);
