/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * JSON for scripts: objects and arrays of values, printed when the outermost one ends
 *
 * json-c builds and writes it. What a terminal would obey is escaped, in strings from other people's processes, too.
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

/* How many may be open at a time, by json_begin(). Values may be deeper. */
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

/* Ends what was begun last. The outermost one is printed, with a newline: all of it, or nothing, and -ENOMEM. Else
 * 0. */
int json_end(Json *j);

/* Prints it and a newline. 0 or -ENOMEM; what the stream says is the stream's to tell. */
int json_print(json_object *o, FILE *f, bool pretty);
