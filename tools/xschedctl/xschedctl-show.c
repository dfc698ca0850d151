/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * show, explain, dump: one object, why it is as it is, and the service's inside
 */

#include <stdio.h>

#include "common/array.h"
#include "tools/shared/ctl-bus.h"
#include "tools/shared/table.h"
#include "tools/shared/terminal.h"
#include "tools/xschedctl/xschedctl-list.h"
#include "tools/xschedctl/xschedctl-target.h"
#include "tools/xschedctl/xschedctl-waits.h"
#include "tools/xschedctl/xschedctl.h"

/* "Name", or "Name,Unit". */
static bool is_listed(const char *list, const char *name) {
        size_t n = strlen(name);

        for (const char *p = list; *p; p += strcspn(p, ","), p += strspn(p, ","))
                if (strncmp(p, name, n) == 0 && (p[n] == '\0' || p[n] == ','))
                        return true;
        return false;
}

static bool property_is_wanted(const Ctl *c, const char *name) {
        for (size_t i = 0; i < c->n_properties; i++)
                if (is_listed(c->properties[i], name))
                        return true;
        return c->n_properties == 0;
}

static void show_text(const Ctl *c, const Value *properties) {
        for (size_t i = 0; i + 1 < properties->n_items; i += 2) {
                const char *name = strempty(value_get_string(properties->items + i));

                if (!property_is_wanted(c, name))
                        continue;
                if (!c->value_only)
                        printf("%s=", name);
                value_print(stdout, properties->items + i + 1);
                putchar('\n');
        }
}

static int show_json(const Ctl *c, Json *j, const Value *properties) {
        json_begin(j, NULL, '{');
        for (size_t i = 0; i + 1 < properties->n_items; i += 2) {
                const char *name = strempty(value_get_string(properties->items + i));

                if (property_is_wanted(c, name))
                        json_value(j, name, properties->items + i + 1);
        }
        return json_end(j);
}

static int check_wanted(const Ctl *c, const char *what, const Object *o) {
        for (size_t i = 0; i < c->n_properties; i++)
                for (const char *p = c->properties[i]; *p; p += strspn(p, ",")) {
                        size_t n = strcspn(p, ",");
                        _cleanup_free_ char *name = strndup(p, n);

                        if (!name)
                                return ctl_fail("out of memory");
                        if (object_get(o, name)->type == VALUE_NONE)
                                return ctl_fail("%s: no such property: %s", what, name);
                        p += n;
                }
        return 0;
}

typedef struct Objects {
        Object *items;
        size_t n;
        bool is_list; /* also with one item */
} Objects;

static void objects_done(Objects *o) {
        for (size_t i = 0; i < o->n; i++)
                object_done(o->items + i);
        free(o->items);
        *o = (Objects){};
}

/* Takes ownership of *object, also on failure. */
static int objects_add(Objects *o, Object *object) {
        Object *items = array_grow(o->items, o->n, sizeof(Object));

        if (!items) {
                object_done(object);
                return ctl_fail("out of memory");
        }
        o->items = items;
        items[o->n++] = TAKE_GENERIC(*object, (Object){});
        return 0;
}

/* Takes ownership of *object, unless it lacks a property that was asked for. */
static int add_object(const Ctl *c, const char *what, Objects *o, Object *object) {
        int r = check_wanted(c, what, object);

        if (r == 0)
                return objects_add(o, object);
        object_done(object);
        return r;
}

static int fetch_devices(Ctl *c, Objects *o) {
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        _cleanup_(snapshot_done)
        Snapshot s = {};

        int r = snapshot_fetch(c, &error, &s);
        if (r < 0)
                return ctl_call_failed(c, &error, r, NULL);
        if (property_is_wanted(c, "Metrics"))
                snapshot_measure(c, &s);
        o->is_list = true;
        r = 0;
        for (size_t i = 0; i < s.n_objects && r == 0; i++)
                if (s.objects[i].kind == OBJECT_DEVICE) {
                        r = check_wanted(c, "device:all", s.objects + i);
                        if (r == 0)
                                r = objects_add(o, s.objects + i);
                }
        return r;
}

/* Makes properties of the settings of a group that does not exist: its name, and its settings. */
static int fetch_settings(Ctl *c, const Target *t, Object *ret) {
        _cleanup_(value_done)
        Value all = {};
        Object object = {.kind = OBJECT_GROUP, .properties = {.type = VALUE_DICT}};
        int r;

        r = list_fetch_array(c, "ListSettings", &all);
        for (size_t i = 0; i < all.n_items && r == 0; i++) {
                const Value *entry = all.items + i;

                if (entry->n_items < 3 || !streq_ptr(value_get_string(entry->items), t->name))
                        continue;
                object.properties = value_copy(entry->items + 2);
                r = value_append(&object.properties, value_string("Name"));
                if (r >= 0)
                        r = value_append(&object.properties, value_copy(entry->items));
                if (r >= 0)
                        r = value_append(&object.properties, value_string("Lifetime"));
                if (r >= 0)
                        r = value_append(&object.properties, value_copy(entry->items + 1));
                if (r >= 0)
                        r = target_add_unregistered(c, t, &object);
                if (r < 0) {
                        object_done(&object);
                        return ctl_fail("out of memory");
                }
                *ret = object;
                return 0;
        }
        return r != 0 ? r : target_group_failed(c, t, NULL);
}

static int fetch_target(Ctl *c, const char *text, Objects *o) {
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        _cleanup_(target_done)
        Target t = {.kind = OBJECT_MANAGER};
        Object object = {};
        int r;

        r = text ? target_resolve(c, text, TARGET_MAY_BE_NEW | TARGET_MAY_BE_GONE, &t) : ctl_connect(c);
        if (r != 0)
                return r;
        if (t.kind == OBJECT_DEVICE && !t.path)
                return fetch_devices(c, o);
        if (t.kind == OBJECT_GROUP && !t.path) {
                r = fetch_settings(c, &t, &object);
                return r != 0 ? r : add_object(c, text, o, &object);
        }
        r = object_fetch(c, t.kind, t.path ?: BUS_PATH, &error, &object);
        if (r < 0)
                return ctl_call_failed(c, &error, r, text);
        if (t.kind == OBJECT_DEVICE && property_is_wanted(c, "Metrics"))
                object_measure(c, &object);
        if (t.kind == OBJECT_GROUP && target_add_unregistered(c, &t, &object) < 0) {
                object_done(&object);
                return ctl_fail("out of memory");
        }
        return add_object(c, text ?: "the service", o, &object);
}

static int show_objects(const Ctl *c, const Objects *o) {
        Json j = {.f = stdout, .pretty = c->json == JSON_PRETTY};
        int r = 0;

        if (c->json != JSON_OFF && o->is_list)
                json_begin(&j, NULL, '[');
        for (size_t i = 0; i < o->n && r >= 0; i++)
                if (c->json != JSON_OFF)
                        r = show_json(c, &j, &o->items[i].properties);
                else {
                        if (i > 0)
                                putchar('\n');
                        show_text(c, &o->items[i].properties);
                }
        if (c->json != JSON_OFF && o->is_list)
                r = json_end(&j);
        return r;
}

int verb_show(Ctl *c, int argc, char *argv[]) {
        _cleanup_(objects_done)
        Objects objects = {.is_list = argc > 1};
        int r = argc > 0 ? 0 : fetch_target(c, NULL, &objects);

        for (int i = 0; i < argc && r == 0; i++)
                r = fetch_target(c, argv[i], &objects);
        if (r != 0)
                return r;
        pager_open(c);
        r = show_objects(c, &objects);
        pager_close();
        return r < 0 ? ctl_fail("cannot print: %s", strerror(-r)) : 0;
}

/* --- explain --- */

static int call_explain(Ctl *c, const char *who, Object *ret_object, Value *ret) {
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *reply = NULL;
        _cleanup_(target_done)
        Target t = {};
        int r;

        r = target_resolve(c, who, false, &t);
        if (r != 0)
                return r;
        if (t.kind == OBJECT_DEVICE)
                return ctl_fail("%s: only of processes, queues, units and groups", who);
        r = object_fetch(c, t.kind, t.path, &error, ret_object);
        if (r >= 0)
                r = ctl_call_method(c, NULL, NULL, "ExplainObject", &error, &reply, "o", t.path);
        if (r >= 0)
                r = value_read(reply, ret);
        if (r < 0)
                return ctl_call_failed(c, &error, r, who);
        if (t.kind == OBJECT_GROUP && target_add_unregistered(c, &t, ret_object) < 0)
                return ctl_fail("out of memory");
        return 0;
}

enum { EXPLAIN_SETTING, EXPLAIN_VALUE, EXPLAIN_SOURCE, EXPLAIN_DETAIL, EXPLAIN_TEXT };

/* (source, "Setting: detail", value) */
static int add_link(Table *t, const Value *link, size_t winner) {
        const char *text = link->n_items == 3 ? value_get_string(link->items + 1) : NULL;
        size_t n = text ? strcspn(text, ":") : 0;
        _cleanup_free_ char *setting = text ? strndup(text, n) : NULL;
        bool overruled = setting && winner < t->n_rows &&
                        streq_ptr(value_get_string(t->rows[winner].cells + EXPLAIN_SETTING), setting);
        Value *cells = table_add(t, overruled ? winner : TABLE_NO_PARENT);

        if (!setting || !cells)
                return -ENOMEM;
        cells[EXPLAIN_SETTING] = value_string(setting);
        cells[EXPLAIN_VALUE] = value_copy(link->items + 2);
        cells[EXPLAIN_SOURCE] = value_copy(link->items);
        cells[EXPLAIN_DETAIL] = value_string(text + n + strspn(text + n, ": "));
        cells[EXPLAIN_TEXT] = value_copy(link->items + 1);
        return overruled;
}

static int add_wait(Table *t, const char *device, const char *reason, const char *why) {
        _cleanup_free_ char *text = NULL;
        Value *cells = why ? table_add(t, TABLE_NO_PARENT) : NULL;

        if (!cells || asprintf(&text, "Waits: %s", why) < 0)
                return -ENOMEM;
        cells[EXPLAIN_SETTING] = value_string("Waits");
        cells[EXPLAIN_VALUE] = value_string(device);
        cells[EXPLAIN_SOURCE] = value_string(reason);
        cells[EXPLAIN_DETAIL] = value_string(why);
        cells[EXPLAIN_TEXT] = value_string(text);
        return 0;
}

/* Adds why the object does not run just now, before its settings. */
static int add_waits(Table *t, const Object *o) {
        const Value *waits = object_get(o, "Waits");
        const char *unregistered = value_get_string(object_get(o, "Unregistered"));
        int r = 0;

        for (size_t i = 0; i < waits->n_items && r >= 0; i++) {
                _cleanup_free_ char *why = wait_describe(waits->items + i);
                r = add_wait(t, wait_device(waits->items + i), wait_reason(waits->items + i), why);
        }
        return unregistered && r >= 0 ? add_wait(t, "", WAIT_UNREGISTERED, unregistered) : r;
}

int verb_explain(Ctl *c, int argc, char *argv[]) {
        static const Column columns[] = {
                        [EXPLAIN_SETTING] = {"SETTING", "setting", CELL_PLAIN, COLUMN_TREE},
                        [EXPLAIN_VALUE] = {"VALUE", "value", CELL_PLAIN, 0},
                        [EXPLAIN_SOURCE] = {"SOURCE", "source", CELL_PLAIN, 0},
                        [EXPLAIN_DETAIL] = {"DETAIL", NULL, CELL_PLAIN, COLUMN_ELASTIC | COLUMN_TEXT},
                        /* The text as it is on the bus. */
                        [EXPLAIN_TEXT] = {"", "detail", CELL_PLAIN, COLUMN_JSON},
        };
        _cleanup_(table_done)
        Table t = TABLE_INIT(columns);
        _cleanup_(value_done)
        Value chain = {};
        _cleanup_(object_done)
        Object object = {};
        size_t winner = SIZE_MAX;
        int r;

        r = call_explain(c, argv[0], &object, &chain);
        if (r != 0)
                return r;
        if (add_waits(&t, &object) < 0)
                return ctl_fail("out of memory");
        /* The layer that counts is the first row, and those that it overrules are below. */
        for (size_t i = 0; i < chain.n_items; i++) {
                r = add_link(&t, chain.items + i, winner);
                if (r < 0)
                        return ctl_fail("out of memory");
                if (r == 0)
                        winner = t.n_rows - 1;
        }
        return table_show(c, &t, NULL, NULL);
}

/* --- dump --- */

static int copy_fd(int from, FILE *to) {
        char buf[65536];
        ssize_t n;

        /* The memfd's offset is at the end of the text, where the service stopped writing. */
        (void) lseek(from, 0, SEEK_SET);
        while ((n = read(from, buf, sizeof(buf))) > 0)
                if (fwrite(buf, 1, (size_t) n, to) != (size_t) n)
                        return negative_errno();
        return n < 0 ? negative_errno() : 0;
}

int verb_dump(Ctl *c, int argc, char *argv[]) {
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *reply = NULL;
        int r, fd;

        r = ctl_connect(c);
        if (r != 0)
                return r;
        r = ctl_call_method(c, NULL, NULL, "Dump", &error, &reply, NULL);
        if (r >= 0)
                r = sd_bus_message_read_basic(reply, 'h', &fd);
        if (r < 0)
                return ctl_call_failed(c, &error, r, "the service's state");
        pager_open(c);
        r = copy_fd(fd, stdout);
        pager_close();
        return r < 0 ? ctl_fail("cannot copy the service's state: %s", strerror(-r)) : 0;
}
