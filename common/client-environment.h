/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What the environment said when the shim was loaded; the application may change it later, from another thread
 *
 * libxsched reads it when it is loaded. Where that is late (late.h), what was preloaded has read it before, and has it
 * in xsched_early_environment, which libxsched finds by that name. The two may be of different versions, after an
 * upgrade under a running process: `size` says whether they mean the same.
 */

#include <stdbool.h>
#include <stddef.h>

/* Empty strings where it said nothing. */
typedef struct ClientEnvironment {
        size_t size; /* 0: not read */
        bool disabled;
        bool debug;
        char bus_address[512];
        char job[128];
        char class[64];
        char priority[16], weight[16];
} ClientEnvironment;

void environment_read(ClientEnvironment *ret);
