/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * JSON for scripts: objects and arrays of values, printed when the outermost one ends
 *
 * json-c builds and writes it. Characters that control a terminal are escaped, because strings may come from other
 * users' processes.
 */

#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>

#include "tools/shared/value.h"

typedef enum JsonMode {
        JSON_OFF,
        JSON_SHORT, /* in one line */
        JSON_PRETTY,
        _JSON_MODE_MAX,
} JsonMode;

int json_mode_from_string(const char *s);

/* Limit of objects and arrays that json_begin() has open at a time. Values may be nested deeper. */
#define JSON_OPEN_MAX 8

typedef struct Json {
        FILE *f;
        bool pretty;
        json_object *open[JSON_OPEN_MAX];
        unsigned n_open;
        int error; /* the first one */
} Json;

/* `key` is NULL inside an array and at the top. The bracket is '{' or '['. */
void json_begin(Json *j, const char *key, char bracket);
void json_value(Json *j, const char *key, const Value *v);

/* Ends the object or array that was begun last. Prints the outermost one, with a newline: as a whole, or not at all.
 * Returns 0 or -ENOMEM. */
int json_end(Json *j);

/* Prints the object and a newline. Returns 0 or -ENOMEM. Errors of the stream are left to the caller, who asks
 * ferror(). */
int json_print(json_object *o, FILE *f, bool pretty);
