/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A message bus for one test, ended with it
 */

#include <stdbool.h>
#include <sys/types.h>

typedef struct PrivateBus {
        pid_t pid;
        char address[256];
} PrivateBus;

/* Returns 0, or -ENOENT without dbus-daemon. The daemon dies with the calling process. */
int private_bus_start(PrivateBus *ret);

/* Starts a bus at the address of a former one, which its clients know. */
int private_bus_start_again(const char *address, PrivateBus *ret);
bool private_bus_listens(const char *address);
void private_bus_stop(PrivateBus *b);
