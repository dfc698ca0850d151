/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The environment at the time the shim was loaded; the application may change it later, from another thread
 *
 * libxsched reads it when it is loaded. Where that is late (late.h), the preloaded layer has read it before, into
 * xsched_early_environment, which libxsched finds by that name. After an upgrade under a running process the two may be
 * of different versions: `size` tells whether the structs are the same.
 *
 * A value that is not understood counts as unset. environment_check() names it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/class-name.h"
#include "common/environment-source.h"

/* Unset variables are empty strings. */
typedef struct ClientEnvironment {
        size_t size; /* 0: not read */
        bool disabled;
        bool debug;
        char bus_address[512];
        char job[128];
        char class[CLASS_NAME_MAX];
        char priority[16], weight[16];
} ClientEnvironment;

void environment_read(ClientEnvironment *ret);

/* Names the variables whose values environment_read() or environment_number() takes for unset, by s->complain(). */
void environment_check(const EnvironmentSource *s);

/* Whether this value of such a variable says yes. NULL: it is not set. */
bool environment_is_true(const char *value);

typedef enum EnvironmentNumber {
        ENVIRONMENT_PRIORITY,
        ENVIRONMENT_WEIGHT,
        _ENVIRONMENT_NUMBER_MAX,
} EnvironmentNumber;

/* Reads the text of such a variable. Returns whether it is a number in its range. */
bool environment_number(EnvironmentNumber n, const char *text, int64_t *ret);
