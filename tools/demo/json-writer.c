/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Builds a JSON document of json-c's objects, and remembers the first error
 */

#include "json-writer.h"
#include "common/json-add.h"
#include "common/macro.h"

json_object *json_writer_add(JsonWriter *w, json_object *to, const char *key, json_object *item) {
        int r = json_add(to, key, item);

        if (r < 0)
                w->error = r;
        return r < 0 ? NULL : item;
}

void json_writer_add_string(JsonWriter *w, json_object *to, const char *key, const char *s) {
        json_writer_add(w, to, key, json_object_new_string(strempty(s)));
}

void json_writer_add_uint(JsonWriter *w, json_object *to, const char *key, uint64_t v) {
        json_writer_add(w, to, key, json_object_new_uint64(v));
}

void json_writer_add_int(JsonWriter *w, json_object *to, const char *key, int64_t v) {
        json_writer_add(w, to, key, json_object_new_int64(v));
}

void json_writer_add_double(JsonWriter *w, json_object *to, const char *key, double v, int digits) {
        char text[64];

        (void) snprintf(text, sizeof(text), "%.*f", digits, v);
        json_writer_add(w, to, key, json_object_new_double_s(v, text));
}

int json_writer_end(JsonWriter *w, json_object *document, FILE *f) {
        if (w->error >= 0) {
                const char *text = json_object_to_json_string_ext(
                                document, JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE);
                if (!text || fprintf(f, "%s\n", text) < 0)
                        w->error = text ? -EIO : -ENOMEM;
        }
        json_object_put(document);
        return w->error;
}
