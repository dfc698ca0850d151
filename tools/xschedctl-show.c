/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * show, explain, dump: one object, why it is as it is, and the service's inside
 */

#include <stdio.h>

#include "tools/xschedctl-bus.h"
#include "tools/xschedctl-table.h"
#include "tools/xschedctl-target.h"
#include "tools/xschedctl-terminal.h"

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

static void show_json(const Ctl *c, Json *j, const Value *properties) {
        json_begin(j, NULL, '{');
        for (size_t i = 0; i + 1 < properties->n_items; i += 2) {
                const char *name = strempty(value_get_string(properties->items + i));

                if (property_is_wanted(c, name))
                        json_value(j, name, properties->items + i + 1);
        }
        json_end(j, '}');
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

static int fetch_target(Ctl *c, const char *text, Object *ret) {
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        _cleanup_(target_done)
        Target t = {.kind = OBJECT_MANAGER};
        int r;

        r = text ? target_resolve(c, text, false, &t) : ctl_connect(c);
        if (r != 0)
                return r;
        if (text && !t.path)
                return ctl_fail("%s: show wants one device", text);
        r = object_fetch(c, t.kind, t.path ?: SERVICE_PATH, &error, ret);
        if (r < 0)
                return ctl_call_failed(c, &error, r, text);
        if (t.kind == OBJECT_DEVICE && property_is_wanted(c, "Metrics"))
                object_measure(c, ret);
        return check_wanted(c, text ?: "the service", ret);
}

int verb_show(Ctl *c, int argc, char *argv[]) {
        size_t n = argc > 0 ? (size_t) argc : 1;
        _cleanup_free_ Object *objects = calloc(n, sizeof(Object));
        int r = 0;

        if (!objects)
                return ctl_fail("out of memory");
        for (size_t i = 0; r == 0 && i < n; i++)
                r = fetch_target(c, argc > 0 ? argv[i] : NULL, objects + i);
        if (r == 0) {
                Json j = {.f = stdout, .pretty = c->json == JSON_PRETTY};

                pager_open(c);
                if (c->json != JSON_OFF && n > 1)
                        json_begin(&j, NULL, '[');
                for (size_t i = 0; i < n; i++)
                        if (c->json != JSON_OFF)
                                show_json(c, &j, &objects[i].properties);
                        else {
                                if (i > 0)
                                        putchar('\n');
                                show_text(c, &objects[i].properties);
                        }
                if (c->json != JSON_OFF && n > 1)
                        json_end(&j, ']');
                pager_close();
        }
        for (size_t i = 0; i < n; i++)
                object_done(objects + i);
        return r;
}

int verb_explain(Ctl *c, int argc, char *argv[]) {
        static const Column columns[] = {
                        {"SOURCE", "source", CELL_PLAIN, 0},
                        {"DETAIL", "detail", CELL_PLAIN, COLUMN_ELASTIC},
                        {"VALUE", "value", CELL_PLAIN, COLUMN_ELASTIC},
        };
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *m = NULL, *reply = NULL;
        _cleanup_(table_done)
        Table t = TABLE_INIT(columns);
        _cleanup_(value_done)
        Value chain = {};
        _cleanup_free_ char *what = NULL;
        _cleanup_close_ int fd = -EBADF;
        int r;

        r = ctl_connect(c);
        if (r == 0)
                r = target_open_pid(argv[0], &fd);
        if (r != 0)
                return r;
        if (asprintf(&what, "process %s", argv[0]) < 0)
                return ctl_fail("out of memory");
        r = ctl_new_call(c, NULL, NULL, "Explain", &m);
        if (r >= 0)
                r = sd_bus_message_append_basic(m, 'h', &fd);
        if (r >= 0)
                r = ctl_call(c, m, &error, &reply);
        if (r >= 0)
                r = value_read(reply, &chain);
        if (r < 0)
                return ctl_call_failed(c, &error, r, what);

        for (size_t i = 0; i < chain.n_items; i++) {
                const Value *link = chain.items + i;
                Value *cells = table_add(&t, TABLE_NO_PARENT);

                for (size_t k = 0; cells && k < MIN(link->n_items, ELEMENTSOF(columns)); k++)
                        cells[k] = value_copy(link->items + k);
        }
        return table_show(c, &t, NULL, NULL);
}

static int copy_fd(int from, FILE *to) {
        char buf[65536];
        ssize_t n;

        /* The memfd's offset is where the service stopped writing. */
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
