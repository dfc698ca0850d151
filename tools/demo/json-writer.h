/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Builds a JSON document of json-c's objects, and remembers the first error
 *
 * An item that could not be made or added is NULL, and so is what is added to it: a caller asks for the error once, at
 * the end.
 */

#include <json-c/json.h>
#include <stdint.h>
#include <stdio.h>

typedef struct JsonWriter {
        int error; /* the first one, or 0 */
} JsonWriter;

/* Adds the item to an object or, with NULL as its key, to an array; takes ownership. Returns the item, or NULL. */
json_object *json_writer_add(JsonWriter *w, json_object *to, const char *key, json_object *item);

void json_writer_add_string(JsonWriter *w, json_object *to, const char *key, const char *s);
void json_writer_add_uint(JsonWriter *w, json_object *to, const char *key, uint64_t v);
void json_writer_add_int(JsonWriter *w, json_object *to, const char *key, int64_t v);

/* Prints so many decimals; json-c would print all that a double has. */
void json_writer_add_double(JsonWriter *w, json_object *to, const char *key, double v, int digits);

/* Prints the document in a line, unless something has failed, and frees it. Returns 0 or the first error. */
int json_writer_end(JsonWriter *w, json_object *document, FILE *f);
