/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A message bus for one test, ended with it
 */

#include <sys/types.h>

typedef struct PrivateBus {
        pid_t pid;
        char address[256];
} PrivateBus;

/* Returns 0, or -ENOENT without dbus-daemon. The daemon dies with the calling process. */
int private_bus_start(PrivateBus *ret);
void private_bus_stop(PrivateBus *b);
