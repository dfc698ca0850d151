/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Strict parsing of numbers
 *
 * Every function takes the whole string or nothing: no trailing rubbish, no sign where none makes sense, no overflow
 * that wraps. They return 0, -EINVAL (not a value of this kind) or -ERANGE (out of range), and leave *ret alone on
 * failure. The caller removes white space around a value (conf-parser does); between the parts of a time span it is
 * allowed.
 *
 * Thread safety: all pure.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/macro.h"

int parse_uint64(const char *s, uint64_t min, uint64_t max, uint64_t *ret); /* decimal */
int parse_int64(const char *s, int64_t min, int64_t max, int64_t *ret);

/* 1 or 0: "1 yes y true t on", "0 no n false f off". */
int parse_bool(const char *s);

/* Whole percent, "25%" or "25". */
int parse_percent(const char *s, uint64_t *ret);
/* The same, or "infinity", which is 0: no limit. */
int parse_limit(const char *s, uint64_t *ret);

/* A time span in nanoseconds: "250us", "5ms", "1.5s", "2min 3s", "1h"; a bare number is seconds, "infinity" is
 * NSEC_INFINITY. Finer than a nanosecond is cut off. */
int parse_nsec(const char *s, uint64_t *ret);

/* Bytes, "512", "64K", "1.5G"; K M G T P are powers of 1024. */
int parse_size(const char *s, uint64_t *ret);

/* Hundredths of a percent from "25%", "12.5%", "0.25%": exact, no binary fractions. */
int parse_permyriad(const char *s, uint32_t max, uint32_t *ret);

#define FORMAT_NSEC_MAX 64U

/* The shortest exact text that parse_nsec() reads back: "250us", "2min 3s", "infinity". Returns buf. */
const char *format_nsec(char *buf, size_t size, uint64_t ns);

/* Valid UTF-8 without control characters: what may go into a journal field, a terminal and a D-Bus string. */
bool string_is_printable(const char *s);

/* State of a check whether a text that comes in pieces is valid UTF-8 without NUL. All zeroes at first. */
typedef struct Utf8Check {
        unsigned char more;      /* bytes of a sequence that are still to come, */
        unsigned char low, high; /* the first of them between these */
        bool failed;
} Utf8Check;

bool utf8_check(Utf8Check *c, const char *s, size_t n); /* the next piece. Fails for ever */
static inline bool utf8_check_is_failed(const Utf8Check *c) {
        return c->failed;
}
static inline bool utf8_check_is_complete(const Utf8Check *c) {
        return !c->failed && c->more == 0;
}
