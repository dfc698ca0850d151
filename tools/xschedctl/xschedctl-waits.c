/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Tells in words why an object does not run
 */

#include <dirent.h>
#include <stdio.h>

#include "common/why-name.h"
#include "tools/xschedctl/xschedctl-waits.h"

/* (device, reason, by whom, since, until, for) */
enum { WAIT_DEVICE, WAIT_REASON, WAIT_BY, WAIT_SINCE, WAIT_UNTIL, WAIT_FOR };

static const char *get_text(const Value *wait, size_t field) {
        return field < wait->n_items ? strempty(value_get_string(wait->items + field)) : "";
}

static uint64_t get_usec(const Value *wait, size_t field) {
        return field < wait->n_items ? value_get_uint(wait->items + field) : 0;
}

/* The wait's own times tell the service's clock. */
static uint64_t get_left(const Value *wait) {
        uint64_t now = get_usec(wait, WAIT_SINCE) + get_usec(wait, WAIT_FOR), until = get_usec(wait, WAIT_UNTIL);

        return until > now ? until - now : 0;
}

static int describe_reason(const Value *wait, char **ret) {
        static const struct {
                const char *reason, *format;
        } words[] = {
                        {"priority", "%s runs, with a higher priority"},
                        {"share", "it is the turn of %s"},
                        {"gang", "%s waits for another of its devices"},
        };
        const char *reason = get_text(wait, WAIT_REASON), *by = get_text(wait, WAIT_BY);
        char left[32];

        if (streq(reason, "max"))
                return asprintf(ret, "Max= of %s is used up, for another %s", by,
                                format_usec(left, sizeof(left), get_left(wait)));
        for (size_t i = 0; i < ELEMENTSOF(words); i++)
                if (streq(reason, words[i].reason)) {
                        const char *at = strstr(words[i].format, "%s");

                        return asprintf(ret, "%.*s%s%s", (int) (at - words[i].format), words[i].format, by, at + 2);
                }
        return asprintf(ret, "%s",
                        streq(reason, "expected") ? "the device is kept for one that is expected back at once"
                                                  : reason);
}

char *wait_describe(const Value *wait) {
        _cleanup_free_ char *why = NULL;
        const char *reason = get_text(wait, WAIT_REASON), *by = get_text(wait, WAIT_BY);
        char held[32], *text;
        int r;

        if (streq(reason, "suspended"))
                r = asprintf(&text, "suspended with %s, until that is resumed", by);
        else if (streq(reason, "stopped"))
                r = asprintf(&text, "its process is stopped or frozen");
        else if (describe_reason(wait, &why) < 0)
                return NULL;
        else
                r = asprintf(&text, "held for %s: %s", format_usec(held, sizeof(held), get_usec(wait, WAIT_FOR)), why);
        return r < 0 ? NULL : text;
}

const char *wait_device(const Value *wait) {
        return get_text(wait, WAIT_DEVICE);
}

const char *wait_reason(const Value *wait) {
        return get_text(wait, WAIT_REASON);
}

enum { COLUMN_GROUP, COLUMN_DEVICE, COLUMN_REASON, COLUMN_BY, COLUMN_FOR, COLUMN_LEFT, COLUMN_WHY };

static int add_wait(Table *t, const Object *group, const Value *wait) {
        _cleanup_free_ char *text = wait_describe(wait);
        Value *cells = text ? table_add(t, TABLE_NO_PARENT) : NULL;

        if (!cells)
                return -ENOMEM;
        cells[COLUMN_GROUP] = value_copy(object_get(group, "Name"));
        cells[COLUMN_DEVICE] = value_string(get_text(wait, WAIT_DEVICE));
        cells[COLUMN_REASON] = value_string(get_text(wait, WAIT_REASON));
        cells[COLUMN_BY] = value_string(get_text(wait, WAIT_BY));
        cells[COLUMN_FOR] = value_uint(get_usec(wait, WAIT_FOR));
        cells[COLUMN_LEFT] = value_uint(get_left(wait));
        cells[COLUMN_WHY] = value_string(text);
        return 0;
}

static int add_unregistered(Table *t, const Object *group, const char *why) {
        Value *cells = table_add(t, TABLE_NO_PARENT);

        if (!cells)
                return -ENOMEM;
        cells[COLUMN_GROUP] = value_copy(object_get(group, "Name"));
        cells[COLUMN_DEVICE] = value_string("");
        cells[COLUMN_REASON] = value_string(WAIT_UNREGISTERED);
        cells[COLUMN_BY] = value_string("");
        cells[COLUMN_WHY] = value_string(why);
        return 0;
}

int list_waits(const Snapshot *s, Table *ret) {
        static const Column columns[] = {
                        [COLUMN_GROUP] = {"WAITING", "group", CELL_PLAIN, COLUMN_ELASTIC},
                        [COLUMN_DEVICE] = {"DEVICE", "device", CELL_PLAIN, COLUMN_ELASTIC},
                        [COLUMN_REASON] = {"", "reason", CELL_PLAIN, COLUMN_JSON},
                        [COLUMN_BY] = {"", "by", CELL_PLAIN, COLUMN_JSON},
                        [COLUMN_FOR] = {"", "for_usec", CELL_USEC, COLUMN_JSON},
                        [COLUMN_LEFT] = {"", "left_usec", CELL_USEC, COLUMN_JSON},
                        [COLUMN_WHY] = {"WHY", "why", CELL_PLAIN, COLUMN_ELASTIC},
        };
        const Object *o;

        *ret = (Table) TABLE_INIT(columns);
        SNAPSHOT_FOREACH(o, s, OBJECT_GROUP) {
                const Value *waits = object_get(o, "Waits");

                for (size_t i = 0; i < waits->n_items; i++) {
                        int r = add_wait(ret, o, waits->items + i);
                        if (r < 0)
                                return r;
                }
                if (value_get_string(object_get(o, "Unregistered")) &&
                                add_unregistered(ret, o, value_get_string(object_get(o, "Unregistered"))) < 0)
                        return -ENOMEM;
        }
        return 0;
}

/* The reason that a library with the first version of the page gives when it does not know this one. */
#define WHY_OF_PAGE_1 "not taken by the service: Protocol error"

static char *find_why(const char *pid) {
        char path[64], line[4096], *why = NULL;
        FILE *f;

        (void) snprintf(path, sizeof(path), "/proc/%.16s/maps", pid);
        f = fopen(path, "re");
        if (!f)
                return NULL;
        while (!why && fgets(line, sizeof(line), f)) {
                const char *at = strstr(line, "/memfd:" WHY_PREFIX);

                if (at) {
                        at += strlen("/memfd:" WHY_PREFIX);
                        const char *end = strstr(at, WHY_END);
                        why = end ? strndup(at, (size_t) (end - at)) : NULL;
                }
        }
        (void) fclose(f);
        return why;
}

char *why_unregistered(const char *pid) {
        /* The library publishes a new reason each time it tries again, so a slow look may miss it: look twice. */
        char *why = find_why(pid) ?: find_why(pid);

        if (why && streq(why, WHY_OF_PAGE_1)) {
                char *other = strdup("not taken by the service: " WHY_OTHER_PAGE);
                free(why);
                return other;
        }
        return why;
}

/* The library takes about so many descriptors; without one left it cannot publish a reason, either. */
#define DESCRIPTORS_NEEDED 8U

static unsigned count_descriptors(const char *pid) {
        char path[64];
        unsigned n = 0;

        (void) snprintf(path, sizeof(path), "/proc/%.16s/fd", pid);
        DIR *d = opendir(path);
        if (!d)
                return 0;
        for (const struct dirent *e; (e = readdir(d));)
                n += e->d_name[0] != '.';
        (void) closedir(d);
        return n;
}

char *why_without_descriptors(const char *pid) {
        char path[64], line[256], *why = NULL;
        unsigned n = count_descriptors(pid), limit;

        (void) snprintf(path, sizeof(path), "/proc/%.16s/limits", pid);
        FILE *f = n > 0 ? fopen(path, "re") : NULL;
        if (!f)
                return NULL;
        while (!why && fgets(line, sizeof(line), f))
                /* NOLINTNEXTLINE(cert-err34-c): as the kernel wrote it */
                if (sscanf(line, "Max open files %u", &limit) == 1 && n + DESCRIPTORS_NEEDED > limit &&
                                asprintf(&why, "%u of its %u descriptors are in use", n, limit) < 0)
                        why = NULL;
        (void) fclose(f);
        return why;
}
