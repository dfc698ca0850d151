/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The plugin's arguments
 *
 * A partition, or a QOS, may have dots and equals signs in its name; a class has no equals sign. A blank would end the
 * argument, so it is written %20.
 */

#include "mapping.h"
#include "common/macro.h"
#include "common/parse-util.h"
#include "policy/policy.h"

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

#define OF_PARTITION "partition."
#define OF_QOS       "qos."
#define OF_ALL       "class="
#define MIN_CEILING  "min="
#define SHIM         "shim="

static bool is_class(const char *s) {
        size_t n = strspn(s, LETTERS);
        return n > 0 && n < MAPPING_CLASS_MAX && s[n] == '\0';
}

/* Compares the name as it is written, and with %20 for blanks: "100%20" may itself be a name. */
static bool is_name(const char *written, size_t n, const char *name) {
        const char *end = written + n;

        if (strlen(name) == n && memcmp(written, name, n) == 0)
                return true;
        for (; written < end && *name; name++) {
                bool blank = end - written >= 3 && memcmp(written, "%20", 3) == 0;

                if (*name != (blank ? ' ' : *written))
                        return false;
                written += blank ? 3 : 1;
        }
        return written == end && !*name;
}

/* Returns CLASS of "partition.NAME=CLASS" when the name is this one (NULL: any). */
static const char *class_of(const char *argument, const char *prefix, const char *name) {
        const char *rest = startswith(argument, prefix), *equals = rest ? strrchr(rest, '=') : NULL;

        if (!equals || equals == rest || !is_class(equals + 1))
                return NULL;
        return !name || is_name(rest, (size_t) (equals - rest), name) ? equals + 1 : NULL;
}

static const char *class_of_all(const char *argument) {
        const char *rest = startswith(argument, OF_ALL);
        return rest && is_class(rest) ? rest : NULL;
}

static int parse_min(const char *argument, int64_t *ret) {
        const char *rest = startswith(argument, MIN_CEILING);
        uint64_t v;

        int r = rest ? parse_percent(rest, &v) : -ENOENT;
        if (r < 0)
                return r;
        if (v > POLICY_MIN_MAX)
                return -ERANGE;
        *ret = (int64_t) v;
        return 0;
}

static int parse_shim(const char *argument) {
        const char *rest = startswith(argument, SHIM);
        return rest ? parse_bool(rest) : -ENOENT;
}

bool mapping_is_valid(const char *argument) {
        int64_t min;

        return class_of(argument, OF_PARTITION, NULL) || class_of(argument, OF_QOS, NULL) || class_of_all(argument) ||
                        parse_min(argument, &min) >= 0 || parse_shim(argument) >= 0;
}

bool mapping_asks_controller(int n, char *arguments[]) {
        for (int i = 0; i < n; i++)
                if (class_of(arguments[i], OF_PARTITION, NULL) || class_of(arguments[i], OF_QOS, NULL))
                        return true;
        return false;
}

const char *mapping_class(int n, char *arguments[], const char *partition, const char *qos) {
        const char *by_qos = NULL, *by_partition = NULL, *by_all = NULL;

        for (int i = 0; i < n; i++) {
                by_qos = (qos ? class_of(arguments[i], OF_QOS, qos) : NULL) ?: by_qos;
                by_partition = (partition ? class_of(arguments[i], OF_PARTITION, partition) : NULL) ?: by_partition;
                by_all = class_of_all(arguments[i]) ?: by_all;
        }
        return by_qos ?: by_partition ?: by_all;
}

int64_t mapping_min(int n, char *arguments[]) {
        int64_t min = 0;

        for (int i = 0; i < n; i++)
                (void) parse_min(arguments[i], &min);
        return min;
}

bool mapping_shim(int n, char *arguments[]) {
        bool shim = true;

        for (int i = 0; i < n; i++) {
                int r = parse_shim(arguments[i]);
                if (r >= 0)
                        shim = r > 0;
        }
        return shim;
}
