/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * JSON: from values to json-c's objects, and out
 */

#include <assert.h>
#include <math.h>

#include "common/utf8.h"
#include "tools/shared/json.h"

static const char *const json_mode_table[_JSON_MODE_MAX] = {
                [JSON_OFF] = "off",
                [JSON_SHORT] = "short",
                [JSON_PRETTY] = "pretty",
};
DEFINE_STRING_TABLE_FROM_STRING(json_mode);

/* Adds the item, and takes ownership of it. */
static int add_item(json_object *to, const char *key, json_object *item) {
        int r = json_object_is_type(to, json_type_array) ? json_object_array_add(to, item)
                                                         : json_object_object_add(to, strempty(key), item);

        if (r < 0)
                json_object_put(item);
        return r < 0 ? -ENOMEM : 0;
}

static int object_from_value(const Value *v, json_object **ret);

static int add_value(json_object *to, const char *key, const Value *v) {
        json_object *o;
        int r;

        r = object_from_value(v, &o);
        return r < 0 ? r : add_item(to, key, o);
}

static int object_from_list(const Value *v, json_object **ret) {
        json_object *o = json_object_new_array();
        int r = o ? 0 : -ENOMEM;

        for (size_t i = 0; r >= 0 && i < v->n_items; i++)
                r = add_value(o, NULL, v->items + i);
        if (r < 0) {
                json_object_put(o);
                return r;
        }
        *ret = o;
        return 0;
}

static int object_from_dict(const Value *v, json_object **ret) {
        json_object *o = json_object_new_object();
        int r = o ? 0 : -ENOMEM;

        for (size_t i = 0; r >= 0 && i + 1 < v->n_items; i += 2) {
                _cleanup_free_ char *name = value_format(v->items + i);
                r = name ? add_value(o, name, v->items + i + 1) : -ENOMEM;
        }
        if (r < 0) {
                json_object_put(o);
                return r;
        }
        *ret = o;
        return 0;
}

/* Prints as many digits as tables do; json-c would print all. */
static json_object *object_from_double(const Value *v) {
        _cleanup_free_ char *text = value_format(v);

        return text ? json_object_new_double_s(v->d, text) : NULL;
}

/* NULL becomes JSON's null. */
static int object_from_value(const Value *v, json_object **ret) {
        json_object *o = NULL;

        switch (v->type) {
        case VALUE_LIST:
                return object_from_list(v, ret);
        case VALUE_DICT:
                return object_from_dict(v, ret);
        case VALUE_BOOL:
                o = json_object_new_boolean(v->b);
                break;
        case VALUE_INT:
                o = json_object_new_int64(v->i);
                break;
        case VALUE_UINT:
                o = json_object_new_uint64(v->u);
                break;
        case VALUE_STRING:
                o = json_object_new_string(v->s);
                break;
        case VALUE_DOUBLE:
                if (isfinite(v->d)) {
                        o = object_from_double(v);
                        break;
                }
                _fallthrough_;
        default:
                *ret = NULL;
                return 0;
        }
        if (!o)
                return -ENOMEM;
        *ret = o;
        return 0;
}

/* json-c escapes C0. Other harmful characters appear in strings only, so they can be escaped anywhere. */
static void print_escaped(FILE *f, const char *text) {
        size_t n;

        for (; *text; text += n) {
                int32_t c = utf8_next(text, &n);

                if (c == '\n' || !utf8_is_harmful(c))
                        (void) fwrite(text, 1, n, f);
                else if (c < 0)
                        fputs("\\ufffd", f);
                else if (c < 0x10000)
                        fprintf(f, "\\u%04x", (unsigned) c);
                else
                        fprintf(f, "\\u%04x\\u%04x", 0xd800U + (((unsigned) c - 0x10000) >> 10),
                                        0xdc00U + ((unsigned) c & 0x3ff));
        }
}

int json_print(json_object *o, FILE *f, bool pretty) {
        int flags = JSON_C_TO_STRING_NOSLASHESCAPE |
                        (pretty ? JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED : JSON_C_TO_STRING_PLAIN);
        const char *text = json_object_to_json_string_ext(o, flags);

        if (!text)
                return -ENOMEM;
        print_escaped(f, text);
        fputc('\n', f);
        return 0;
}

void json_begin(Json *j, const char *key, char bracket) {
        json_object *o = NULL;

        assert(j->n_open < JSON_OPEN_MAX);
        if (j->error >= 0) {
                o = bracket == '{' ? json_object_new_object() : json_object_new_array();
                j->error = o ? 0 : -ENOMEM;
        }
        /* An open object belongs to the one around it, and the outermost to us. */
        if (o && j->n_open > 0) {
                j->error = add_item(j->open[j->n_open - 1], key, o);
                o = j->error < 0 ? NULL : o;
        }
        j->open[j->n_open] = o;
        j->n_open++;
}

void json_value(Json *j, const char *key, const Value *v) {
        assert(j->n_open > 0);
        if (j->error < 0)
                return;
        j->error = add_value(j->open[j->n_open - 1], key, v);
}

int json_end(Json *j) {
        assert(j->n_open > 0);
        if (--j->n_open > 0)
                return 0;
        if (j->error >= 0)
                j->error = json_print(j->open[0], j->f, j->pretty);
        json_object_put(j->open[0]);
        return j->error;
}
