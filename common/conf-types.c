/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The types of settings that are not one program's own
 */

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#include "conf-parser.h"
#include "conf-types.h"
#include "parse-util.h"
#include "time-util.h"

static const char *format_number(char *buf, size_t size, int64_t limit) {
        (void) snprintf(buf, size, "%" PRIi64, limit);
        return buf;
}

static const char *format_span(char *buf, size_t size, int64_t limit) {
        return format_nsec(buf, size, (uint64_t) limit);
}

static int type_bool(const char *value, const ConfItem *item, void *data) {
        int r = parse_bool(value);
        if (r < 0)
                return r;
        *(bool *) data = r > 0;
        return 0;
}

static int type_int(const char *value, const ConfItem *item, void *data) {
        int64_t v;
        int r = parse_int64(value, MAX(item->min, (int64_t) INT_MIN), MIN(item->max, (int64_t) INT_MAX), &v);
        if (r < 0)
                return r;
        *(int *) data = (int) v;
        return 0;
}

static int type_uint(const char *value, const ConfItem *item, void *data) {
        uint64_t v;
        int r = parse_uint64(value, (uint64_t) item->min, (uint64_t) MIN(item->max, (int64_t) UINT32_MAX), &v);
        if (r < 0)
                return r;
        *(uint32_t *) data = (uint32_t) v;
        return 0;
}

static int parse_span(const char *value, const ConfItem *item, uint64_t *ret) {
        uint64_t v;
        int r = parse_nsec(value, &v);
        if (r < 0)
                return r;
        if (v < (uint64_t) item->min || v > (uint64_t) item->max)
                return -ERANGE;
        *ret = v;
        return 0;
}

static int type_nsec(const char *value, const ConfItem *item, void *data) {
        return parse_span(value, item, data);
}

static int type_usec(const char *value, const ConfItem *item, void *data) {
        uint64_t v;
        int r = parse_span(value, item, &v);
        if (r < 0)
                return r;
        if (v % NSEC_PER_USEC != 0 || v / NSEC_PER_USEC > UINT32_MAX)
                return -EINVAL;
        *(uint32_t *) data = (uint32_t) (v / NSEC_PER_USEC);
        return 0;
}

static int type_string(const char *value, const ConfItem *item, void *data) {
        size_t n = strlen(value);

        if (n >= item->size || !string_is_printable(value))
                return -EINVAL;
        /* Clears the whole array, so that two equal settings are equal bytes. */
        memset(data, 0, item->size);
        memcpy(data, value, n);
        return 0;
}

const ConfType conf_type_bool = {"a boolean (yes or no)", type_bool, NULL};
const ConfType conf_type_int = {"a whole number", type_int, format_number};
const ConfType conf_type_uint = {"a whole number, 0 or greater", type_uint, format_number};
const ConfType conf_type_nsec = {"a time span (\"250us\", \"5ms\", \"1min 30s\")", type_nsec, format_span};
const ConfType conf_type_usec = {"a time span in whole microseconds (\"250us\", \"1ms\")", type_usec, format_span};
const ConfType conf_type_string = {"printable UTF-8 text that fits", type_string, NULL};
