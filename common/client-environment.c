/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The environment: no system call, no memory
 */

#include "common/client-environment.h"
#include "common/class-name.h"
#include "common/macro.h"

static const struct {
        const char *variable, *wanted;
        int64_t min, max;
} numbers[_ENVIRONMENT_NUMBER_MAX] = {
                [ENVIRONMENT_PRIORITY] = {"XSCHED_PRIORITY", "-255..255", -255, 255},
                [ENVIRONMENT_WEIGHT] = {"XSCHED_WEIGHT", "1..10000", 1, 10000},
};

static const char *const bools[] = {"XSCHED_DISABLE", "XSCHED_DEBUG"};

#define VARIABLE_ADDRESS "XSCHED_BUS_ADDRESS"
#define VARIABLE_CLASS   "XSCHED_CLASS"

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

static bool is_false(const char *value) {
        return isempty(value) || streq(value, "0") || streq(value, "no") || streq(value, "false") ||
                        streq(value, "off");
}

static bool read_bool(const char *variable) {
        return environment_is_true(secure_getenv(variable));
}

bool environment_number(EnvironmentNumber n, const char *text, int64_t *ret) {
        char *end;

        errno = 0;
        long long value = strtoll(text, &end, 10);
        if (errno != 0 || *end != '\0' || end == text || value < numbers[n].min || value > numbers[n].max)
                return false;
        *ret = value;
        return true;
}

void environment_read(ClientEnvironment *ret) {
        ret->disabled = read_bool("XSCHED_DISABLE");
        ret->debug = read_bool("XSCHED_DEBUG");
        read_string(VARIABLE_ADDRESS, ret->bus_address, sizeof(ret->bus_address));
        read_string("XSCHED_JOB", ret->job, sizeof(ret->job));
        read_string(VARIABLE_CLASS, ret->class, sizeof(ret->class));
        if (!class_name_is_valid(ret->class))
                ret->class[0] = '\0';
        read_string(numbers[ENVIRONMENT_PRIORITY].variable, ret->priority, sizeof(ret->priority));
        read_string(numbers[ENVIRONMENT_WEIGHT].variable, ret->weight, sizeof(ret->weight));
        ret->size = sizeof(*ret);
}

static bool number_is_understood(EnvironmentNumber n, const char *text) {
        int64_t unused;

        return strlen(text) < sizeof(((ClientEnvironment *) NULL)->priority) && environment_number(n, text, &unused);
}

void environment_check(const EnvironmentSource *s) {
        const char *v;

        for (size_t i = 0; i < ELEMENTSOF(bools); i++) {
                v = environment_get(s, bools[i]);
                if (!is_false(v) && !environment_is_true(v))
                        environment_complain(s, bools[i], v, "1 or 0");
        }
        v = strempty(environment_get(s, VARIABLE_ADDRESS));
        if (strlen(v) >= sizeof(((ClientEnvironment *) NULL)->bus_address))
                environment_complain(s, VARIABLE_ADDRESS, v, "at most 511 characters");
        v = environment_get(s, VARIABLE_CLASS);
        if (!isempty(v) && !class_name_is_valid(v))
                environment_complain(s, VARIABLE_CLASS, v,
                                "the name of a class, at most 63 letters, digits, '.', '_' and '-'");
        for (EnvironmentNumber n = 0; n < _ENVIRONMENT_NUMBER_MAX; n++) {
                v = environment_get(s, numbers[n].variable);
                if (!isempty(v) && !number_is_understood(n, v))
                        environment_complain(s, numbers[n].variable, v, numbers[n].wanted);
        }
}
