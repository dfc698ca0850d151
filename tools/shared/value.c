/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Values: from a bus message to text
 */

#include <inttypes.h>

#include "common/array.h"
#include "common/utf8.h"
#include "tools/shared/value.h"

void value_done(Value *v) {
        if (v->type == VALUE_STRING)
                free(v->s);
        if (v->type == VALUE_LIST || v->type == VALUE_DICT) {
                for (size_t i = 0; i < v->n_items; i++)
                        value_done(v->items + i);
                free(v->items);
        }
        *v = (Value){};
}

/* Bytes that are not UTF-8 become \xNN: names of processes and cgroups are any bytes, and neither a table nor JSON
 * takes them. */
static char *to_utf8(const char *s) {
        char *text = malloc(4 * strlen(s) + 1), *to = text;

        while (text && *s) {
                size_t n = utf8_length(s);

                if (n == 0)
                        to += sprintf(to, "\\x%02x", (unsigned char) *s++);
                for (; n > 0; n--)
                        *to++ = *s++;
        }
        if (text)
                *to = '\0';
        return text;
}

Value value_string(const char *s) {
        char *copy = s ? to_utf8(s) : NULL;

        return copy ? (Value){.type = VALUE_STRING, .s = copy} : (Value){};
}

Value value_copy(const Value *v) {
        Value copy = *v;

        if (v->type == VALUE_STRING)
                return value_string(v->s);
        if (v->type == VALUE_LIST || v->type == VALUE_DICT) {
                copy.items = NULL;
                copy.n_items = 0;
                for (size_t i = 0; i < v->n_items; i++)
                        if (value_append(&copy, value_copy(v->items + i)) < 0)
                                break;
        }
        return copy;
}

const char *value_get_string(const Value *v) {
        return v->type == VALUE_STRING ? v->s : NULL;
}

uint64_t value_get_uint(const Value *v) {
        switch (v->type) {
        case VALUE_UINT:
                return v->u;
        case VALUE_INT:
                return v->i > 0 ? (uint64_t) v->i : 0;
        case VALUE_BOOL:
                return v->b;
        default:
                return 0;
        }
}

double value_get_double(const Value *v) {
        switch (v->type) {
        case VALUE_DOUBLE:
                return v->d;
        case VALUE_INT:
                return (double) v->i;
        default:
                return (double) value_get_uint(v);
        }
}

int value_append(Value *list, Value v) {
        Value *items = array_grow(list->items, list->n_items, sizeof(Value));

        if (!items) {
                value_done(&v);
                return -ENOMEM;
        }
        list->items = items;
        list->items[list->n_items++] = v;
        return 0;
}

static int value_read_basic(sd_bus_message *m, char type, Value *ret) {
        union {
                uint8_t y;
                int b;
                int16_t n;
                uint16_t q;
                int32_t i;
                uint32_t u;
                int64_t x;
                uint64_t t;
                double d;
                const char *s;
                int h;
        } basic;
        int r;

        r = sd_bus_message_read_basic(m, type, &basic);
        if (r < 0)
                return r;
        switch (type) {
        case 'y':
                *ret = value_uint(basic.y);
                break;
        case 'b':
                *ret = value_bool(basic.b);
                break;
        case 'n':
                *ret = value_int(basic.n);
                break;
        case 'q':
                *ret = value_uint(basic.q);
                break;
        case 'i':
                *ret = value_int(basic.i);
                break;
        case 'u':
                *ret = value_uint(basic.u);
                break;
        case 'x':
                *ret = value_int(basic.x);
                break;
        case 't':
                *ret = value_uint(basic.t);
                break;
        case 'd':
                *ret = value_double(basic.d);
                break;
        case 'h':
                *ret = value_int(basic.h);
                break;
        default:
                *ret = value_string(basic.s);
        }
        return 1;
}

/* Items up to the end of the container that was entered. */
static int value_read_items(sd_bus_message *m, Value *ret) {
        int r;

        for (;;) {
                Value item = {};

                r = value_read(m, &item);
                if (r <= 0)
                        return r;
                r = value_append(ret, item);
                if (r < 0)
                        return r;
        }
}

static int value_read_container(sd_bus_message *m, char type, const char *contents, Value *ret) {
        _cleanup_(value_done)
        Value v = {.type = VALUE_LIST};
        int r;

        if (type == 'a' && contents[0] == '{')
                v.type = VALUE_DICT;
        r = sd_bus_message_enter_container(m, type, contents);
        if (r < 0)
                return r;
        if (type == 'v')
                r = value_read(m, &v);
        else if (v.type == VALUE_DICT)
                while ((r = sd_bus_message_enter_container(m, 0, NULL)) > 0) {
                        r = value_read_items(m, &v);
                        if (r >= 0)
                                r = sd_bus_message_exit_container(m);
                        if (r < 0)
                                return r;
                }
        else
                r = value_read_items(m, &v);
        if (r < 0)
                return r;
        r = sd_bus_message_exit_container(m);
        if (r < 0)
                return r;
        *ret = TAKE_GENERIC(v, (Value){});
        return 1;
}

int value_read(sd_bus_message *m, Value *ret) {
        const char *contents;
        char type;
        int r;

        r = sd_bus_message_peek_type(m, &type, &contents);
        if (r <= 0)
                return r;
        return strchr("avre", type) ? value_read_container(m, type, contents, ret) : value_read_basic(m, type, ret);
}

/* The shortest text that reads back as the same number. */
static void print_double(FILE *f, double d) {
        char buf[64];

        for (int precision = 6; precision <= 17; precision++) {
                snprintf(buf, sizeof(buf), "%.*g", precision, d);
                if (strtod(buf, NULL) == d)
                        break;
        }
        fputs(buf, f);
}

void print_text(FILE *f, const char *text) {
        size_t n;

        for (; *text; text += n) {
                bool harmful = utf8_is_harmful(utf8_next(text, &n));

                for (size_t i = 0; i < n; i++)
                        fprintf(f, harmful ? "\\x%02x" : "%c", (unsigned char) text[i]);
        }
}

void value_print(FILE *f, const Value *v) {
        switch (v->type) {
        case VALUE_NONE:
                break;
        case VALUE_BOOL:
                fputs(v->b ? "yes" : "no", f);
                break;
        case VALUE_INT:
                fprintf(f, "%" PRIi64, v->i);
                break;
        case VALUE_UINT:
                fprintf(f, "%" PRIu64, v->u);
                break;
        case VALUE_DOUBLE:
                print_double(f, v->d);
                break;
        case VALUE_STRING:
                print_text(f, v->s);
                break;
        case VALUE_LIST:
                for (size_t i = 0; i < v->n_items; i++) {
                        if (i > 0)
                                fputc(' ', f);
                        value_print(f, v->items + i);
                }
                break;
        case VALUE_DICT:
                for (size_t i = 0; i + 1 < v->n_items; i += 2) {
                        if (i > 0)
                                fputc(' ', f);
                        value_print(f, v->items + i);
                        fputc('=', f);
                        value_print(f, v->items + i + 1);
                }
                break;
        }
}

char *value_format(const Value *v) {
        char *text = NULL;
        size_t n;
        FILE *f;

        f = open_memstream(&text, &n);
        if (!f)
                return NULL;
        value_print(f, v);
        if (fclose(f) != 0) {
                free(text);
                return NULL;
        }
        return text;
}
