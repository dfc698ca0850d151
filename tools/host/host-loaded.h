/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Host loaded: which libraries of xsched processes have loaded
 */

#include "host-scan.h"

/* Reads what the wanted processes have loaded. The calling process must have no other threads. Returns 0 or a negative
 * errno. */
int host_read_loaded(HostProcesses *all, bool (*wanted)(const HostProcess *p, void *userdata), void *userdata);
