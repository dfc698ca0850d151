/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Parses the requests of users
 */

#include <inttypes.h>
#include <stdio.h>

#include "common/parse-util.h"
#include "common/setting-rows.h"
#include "policy/policy.h"
#include "request.h"

typedef struct RequestRow {
        const char *name, *range;
        int (*percent)(const char *s, uint64_t *ret); /* NULL: a number */
        int64_t min, max;
} RequestRow;

#define PERCENT_INT     NULL
#define PERCENT_UINT    NULL
#define PERCENT_PERCENT parse_percent
#define PERCENT_LIMIT   parse_limit

/* The settings that jobs can ask for, by KEY. A new setting is named here, too. */
#define REQUEST_ROW_PRIORITY(...) REQUEST_ROW(REQUEST_PRIORITY, __VA_ARGS__)
#define REQUEST_ROW_WEIGHT(...)   REQUEST_ROW(REQUEST_WEIGHT, __VA_ARGS__)
#define REQUEST_ROW_MAX(...)      REQUEST_ROW(REQUEST_MAX, __VA_ARGS__)
#define REQUEST_ROW_MIN(...)      REQUEST_ROW(REQUEST_MIN, __VA_ARGS__)
#define REQUEST_ROW_THRESHOLD(...)
#define REQUEST_ROW_PREEMPTION(...)
#define REQUEST_ROW_GANG(...)
#define REQUEST_ROW_DEADLINE(...)
#define REQUEST_ROW_LAXITY(...)
#define REQUEST_ROW_CRITICAL(...)
#define REQUEST_ROW_UTILIZATION(...)
#define REQUEST_ROW_ACTIVE(...)
#define REQUEST_ROW_PERIOD(...)
#define REQUEST_ROW_ACCOUNTING(...)
#define REQUEST_ROW_CLASS(...)
#define REQUEST_ROW(k, n, TYPE, low, high, text)                                                                       \
        [k] = {.name = (n), .range = (text), .percent = PERCENT_##TYPE, .min = (low), .max = (high)},
#define ROW_OF(arg, KEY, Name, name, field, TYPE, min, max, usual, LOWERS, INHERITS, WHOSE, HOME, range)               \
        REQUEST_ROW_##KEY(#name, TYPE, min, max, range)

static const RequestRow rows[_REQUEST_KEY_MAX] = {SETTING_ROWS(ROW_OF, )};

const char *request_key_to_string(RequestKey k) {
        return rows[k].name;
}

const char *request_key_range(RequestKey k) {
        return rows[k].range;
}

static int parse(const RequestRow *row, const char *text, int64_t *ret) {
        uint64_t percent;

        if (!row->percent)
                return parse_int64(text, row->min, row->max, ret);
        int r = row->percent(text, &percent);
        if (r < 0)
                return r;
        if (percent > (uint64_t) row->max)
                return -ERANGE;
        *ret = (int64_t) percent;
        return 0;
}

int request_set(Request *r, RequestKey k, const char *text) {
        int64_t value;

        int e = parse(&rows[k], text, &value);
        if (e < 0)
                return e;
        r->value[k] = value;
        if (k == REQUEST_MAX && value == 0)
                r->given &= ~(1U << k);
        else
                r->given |= 1U << k;
        return 0;
}

const char *request_format(const Request *r, RequestKey k, char buf[static REQUEST_VALUE_MAX]) {
        (void) snprintf(buf, REQUEST_VALUE_MAX, "%" PRIi64 "%s", r->value[k], rows[k].percent ? "%" : "");
        return buf;
}
