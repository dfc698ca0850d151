/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A value as the bus has it: read from a message, shown as text, or as JSON (json.h)
 *
 * Everything that xschedctl prints is a Value, so that a number is a number in the table and in JSON alike.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <systemd/sd-bus.h>

#include "common/macro.h"

typedef enum ValueType {
        VALUE_NONE, /* unknown, or not applicable: "-" in a table, null in JSON */
        VALUE_BOOL,
        VALUE_INT,
        VALUE_UINT,
        VALUE_DOUBLE,
        VALUE_STRING,
        VALUE_LIST, /* arrays and structures */
        VALUE_DICT, /* items are key, value, key, value, ... */
} ValueType;

typedef struct Value {
        ValueType type;
        union {
                bool b;
                int64_t i;
                uint64_t u;
                double d;
                char *s;
                struct {
                        struct Value *items;
                        size_t n_items;
                };
        };
} Value;

void value_done(Value *v);

static inline Value value_bool(bool b) {
        return (Value){.type = VALUE_BOOL, .b = b};
}

static inline Value value_int(int64_t i) {
        return (Value){.type = VALUE_INT, .i = i};
}

static inline Value value_uint(uint64_t u) {
        return (Value){.type = VALUE_UINT, .u = u};
}

static inline Value value_double(double d) {
        return (Value){.type = VALUE_DOUBLE, .d = d};
}

/* Makes a copy. VALUE_NONE for NULL. */
Value value_string(const char *s);
Value value_copy(const Value *v);

/* NULL when v is no string. */
const char *value_get_string(const Value *v);
/* 0 when v is no number. */
uint64_t value_get_uint(const Value *v);
double value_get_double(const Value *v);

/* Appends an item to a list (or a dict); v is taken, also on failure. */
int value_append(Value *list, Value v);

/* The next complete value of a message; variants are unpacked. */
int value_read(sd_bus_message *m, Value *ret);

/* Prints UTF-8 from other people's processes. The bytes of a character that could do something to the terminal, or
 * deceive the reader (utf8_is_harmful()), become \xNN each. */
void print_text(FILE *f, const char *text);

/* As people and shell scripts read it: lists by spaces, dicts as KEY=VALUE. */
void value_print(FILE *f, const Value *v);
char *value_format(const Value *v);
