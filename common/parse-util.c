/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Strict parsing of numbers
 */

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#include "parse-util.h"
#include "time-util.h"
#include "utf8.h"

/* By hand, because isdigit() and isspace() depend on the locale. */
static bool is_digit(char c) {
        return c >= '0' && c <= '9';
}

static bool is_blank(char c) {
        return c == ' ' || c == '\t';
}

/* The digits at *s, which advances over them. -ENODATA when there are none. */
static int take_digits(const char **s, uint64_t *ret) {
        uint64_t v = 0;
        bool overflow = false;
        const char *p = *s;

        if (!is_digit(*p))
                return -ENODATA;
        for (; is_digit(*p); p++)
                overflow |= __builtin_mul_overflow(v, UINT64_C(10), &v) ||
                                __builtin_add_overflow(v, (uint64_t) (*p - '0'), &v);
        *s = p;
        if (overflow)
                return -ERANGE;
        *ret = v;
        return 0;
}

int parse_uint64(const char *s, uint64_t min, uint64_t max, uint64_t *ret) {
        uint64_t v = 0;
        int r = take_digits(&s, &v);
        if (r == -ENODATA || *s)
                return -EINVAL;
        if (r < 0 || v < min || v > max)
                return -ERANGE;
        *ret = v;
        return 0;
}

int parse_int64(const char *s, int64_t min, int64_t max, int64_t *ret) {
        bool negative = *s == '-';
        uint64_t magnitude = 0;
        int r = parse_uint64(s + (*s == '-' || *s == '+'), 0, (uint64_t) INT64_MAX, &magnitude);
        if (r < 0)
                return r;
        int64_t v = negative ? -(int64_t) magnitude : (int64_t) magnitude;
        if (v < min || v > max)
                return -ERANGE;
        *ret = v;
        return 0;
}

int parse_percent(const char *s, uint64_t *ret) {
        size_t n = s ? strlen(s) : 0;
        char digits[16];

        if (n > 0 && s[n - 1] == '%')
                n--;
        if (n == 0 || n >= sizeof(digits))
                return -EINVAL;
        memcpy(digits, s, n);
        digits[n] = '\0';
        return parse_uint64(digits, 0, UINT32_MAX, ret);
}

int parse_limit(const char *s, uint64_t *ret) {
        if (!streq_ptr(s, "infinity"))
                return parse_percent(s, ret);
        *ret = 0;
        return 0;
}

int parse_bool(const char *s) {
        static const char *const yes[] = {"1", "yes", "y", "true", "t", "on"};
        static const char *const no[] = {"0", "no", "n", "false", "f", "off"};

        for (size_t i = 0; i < ELEMENTSOF(yes); i++) {
                if (streq(s, yes[i]))
                        return 1;
                if (streq(s, no[i]))
                        return 0;
        }
        return -EINVAL;
}

/* "12", "12.5", ".5": whole * scale plus the fraction's share of scale, cut off below one. */
static int take_scaled(const char **s, uint64_t *ret_whole, uint64_t *ret_fraction, uint64_t *ret_power) {
        uint64_t whole = 0, fraction = 0, power = 1;
        const char *p = *s;
        int r = take_digits(&p, &whole);
        if (r < 0 && r != -ENODATA)
                return r;

        if (*p == '.') {
                p++;
                if (!is_digit(*p))
                        return -EINVAL;
                for (; is_digit(*p); p++)
                        if (power < UINT64_C(1000000000)) {
                                fraction = fraction * 10 + (uint64_t) (*p - '0');
                                power *= 10;
                        }
        } else if (r == -ENODATA)
                return -EINVAL;

        *s = p;
        *ret_whole = whole;
        *ret_fraction = fraction;
        *ret_power = power;
        return 0;
}

static int scale(uint64_t whole, uint64_t fraction, uint64_t power, uint64_t unit, uint64_t *ret) {
        unsigned __int128 v = (unsigned __int128) whole * unit + (unsigned __int128) fraction * unit / power;
        if (v >= UINT64_MAX)
                return -ERANGE;
        *ret = (uint64_t) v;
        return 0;
}

typedef struct Unit {
        const char *name;
        uint64_t factor;
} Unit;

/* The longer of two names with the same beginning comes first. */
static const Unit time_units[] = {
                {"nsec", 1},
                {"ns", 1},
                {"usec", NSEC_PER_USEC},
                {"us", NSEC_PER_USEC},
                {"\xc2\xb5s", NSEC_PER_USEC}, /* micro sign */
                {"\xce\xbcs", NSEC_PER_USEC}, /* Greek mu */
                {"msec", NSEC_PER_MSEC},
                {"ms", NSEC_PER_MSEC},
                {"seconds", NSEC_PER_SEC},
                {"second", NSEC_PER_SEC},
                {"sec", NSEC_PER_SEC},
                {"s", NSEC_PER_SEC},
                {"minutes", 60 * NSEC_PER_SEC},
                {"minute", 60 * NSEC_PER_SEC},
                {"min", 60 * NSEC_PER_SEC},
                {"m", 60 * NSEC_PER_SEC},
                {"hours", 3600 * NSEC_PER_SEC},
                {"hour", 3600 * NSEC_PER_SEC},
                {"hr", 3600 * NSEC_PER_SEC},
                {"h", 3600 * NSEC_PER_SEC},
                {"days", 86400 * NSEC_PER_SEC},
                {"day", 86400 * NSEC_PER_SEC},
                {"d", 86400 * NSEC_PER_SEC},
};

static bool take_unit(const char **s, const Unit *units, size_t n, uint64_t *ret) {
        for (size_t i = 0; i < n; i++) {
                const char *rest = startswith(*s, units[i].name);
                if (rest) {
                        *s = rest;
                        *ret = units[i].factor;
                        return true;
                }
        }
        return false;
}

int parse_nsec(const char *s, uint64_t *ret) {
        uint64_t total = 0;
        bool any = false;

        if (streq(s, "infinity")) {
                *ret = NSEC_INFINITY;
                return 0;
        }
        for (;;) {
                uint64_t whole, fraction, power, unit = NSEC_PER_SEC, part;

                while (is_blank(*s))
                        s++;
                if (!*s)
                        break;
                int r = take_scaled(&s, &whole, &fraction, &power);
                if (r < 0)
                        return r;
                while (is_blank(*s))
                        s++;
                /* A number without a unit is seconds, but only at the end: "5 3s" is a typing error. */
                if (!take_unit(&s, time_units, ELEMENTSOF(time_units), &unit) && *s)
                        return -EINVAL;
                r = scale(whole, fraction, power, unit, &part);
                if (r < 0)
                        return r;
                if (__builtin_add_overflow(total, part, &total) || total == NSEC_INFINITY)
                        return -ERANGE;
                any = true;
        }
        if (!any)
                return -EINVAL;
        *ret = total;
        return 0;
}

int parse_size(const char *s, uint64_t *ret) {
        static const Unit size_units[] = {
                        {"K", UINT64_C(1) << 10},
                        {"M", UINT64_C(1) << 20},
                        {"G", UINT64_C(1) << 30},
                        {"T", UINT64_C(1) << 40},
                        {"P", UINT64_C(1) << 50},
                        {"B", 1},
        };
        uint64_t whole, fraction, power, unit = 1;
        int r = take_scaled(&s, &whole, &fraction, &power);
        if (r < 0)
                return r;
        (void) take_unit(&s, size_units, ELEMENTSOF(size_units), &unit);
        if (*s || (unit == 1 && fraction != 0))
                return -EINVAL;
        return scale(whole, fraction, power, unit, ret);
}

int parse_permyriad(const char *s, uint32_t max, uint32_t *ret) {
        uint64_t whole, fraction, power, v;
        int r = take_scaled(&s, &whole, &fraction, &power);
        if (r < 0)
                return r;
        if (!streq(s, "%") || fraction * 100 % power != 0)
                return -EINVAL;
        r = scale(whole, fraction, power, 100, &v);
        if (r < 0 || v > max)
                return -ERANGE;
        *ret = (uint32_t) v;
        return 0;
}

const char *format_nsec(char *buf, size_t size, uint64_t ns) {
        static const Unit out[] = {
                        {"d", 86400 * NSEC_PER_SEC},
                        {"h", 3600 * NSEC_PER_SEC},
                        {"min", 60 * NSEC_PER_SEC},
                        {"s", NSEC_PER_SEC},
                        {"ms", NSEC_PER_MSEC},
                        {"us", NSEC_PER_USEC},
                        {"ns", 1},
        };
        size_t used = 0;

        if (ns == NSEC_INFINITY || ns == 0) {
                (void) snprintf(buf, size, "%s", ns == 0 ? "0" : "infinity");
                return buf;
        }
        if (size > 0)
                buf[0] = '\0';
        for (size_t i = 0; i < ELEMENTSOF(out) && used < size; i++) {
                uint64_t n = ns / out[i].factor;
                if (n == 0)
                        continue;
                ns %= out[i].factor;
                int k = snprintf(buf + used, size - used, "%s%" PRIu64 "%s", used > 0 ? " " : "", n, out[i].name);
                used += k > 0 ? (size_t) k : 0;
        }
        return buf;
}

bool string_is_printable(const char *s) {
        for (const unsigned char *p = (const unsigned char *) s; *p;) {
                size_t n = utf8_length((const char *) p);
                /* C0, DEL, and C1 (U+0080 to U+009F), which terminals obey as well. */
                if (n == 0 || *p < 0x20 || *p == 0x7f || (*p == 0xc2 && p[1] < 0xa0))
                        return false;
                p += n;
        }
        return true;
}

/* The first byte of a sequence. */
static bool utf8_begin(Utf8Check *c, unsigned char first) {
        if (first == 0)
                return false;
        if (first < 0x80)
                return true;
        c->low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
        c->high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
        c->more = first >= 0xc2 && first < 0xe0         ? 1
                        : (first & 0xf0) == 0xe0        ? 2
                        : first >= 0xf0 && first < 0xf5 ? 3
                                                        : 0;
        return c->more > 0;
}

bool utf8_check(Utf8Check *c, const char *s, size_t n) {
        for (size_t i = 0; i < n && !c->failed; i++) {
                unsigned char byte = (unsigned char) s[i];
                if (c->more == 0)
                        c->failed = !utf8_begin(c, byte);
                else {
                        c->failed = byte < c->low || byte > c->high;
                        c->more--;
                        c->low = 0x80;
                        c->high = 0xbf;
                }
        }
        return !c->failed;
}
