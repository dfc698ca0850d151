/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The environment: no system call, no memory
 */

#include "common/client-environment.h"
#include "common/macro.h"

static void read_string(const char *variable, char *ret, size_t size) {
        const char *v = strempty(secure_getenv(variable));
        size_t n = strlen(v) + 1;

        /* A truncated address or token is useless, so a value that is too long counts as unset. */
        if (n <= size)
                memcpy(ret, v, n);
}

bool environment_is_true(const char *value) {
        return value && (streq(value, "1") || streq(value, "yes") || streq(value, "true") || streq(value, "on"));
}

static bool read_bool(const char *variable) {
        return environment_is_true(secure_getenv(variable));
}

void environment_read(ClientEnvironment *ret) {
        ret->disabled = read_bool("XSCHED_DISABLE");
        ret->debug = read_bool("XSCHED_DEBUG");
        read_string("XSCHED_BUS_ADDRESS", ret->bus_address, sizeof(ret->bus_address));
        read_string("XSCHED_JOB", ret->job, sizeof(ret->job));
        read_string("XSCHED_CLASS", ret->class, sizeof(ret->class));
        read_string("XSCHED_PRIORITY", ret->priority, sizeof(ret->priority));
        read_string("XSCHED_WEIGHT", ret->weight, sizeof(ret->weight));
        ret->size = sizeof(*ret);
}
