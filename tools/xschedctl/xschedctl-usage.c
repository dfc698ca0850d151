/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Where the time of devices went
 */

#include <stdio.h>

#include "tools/shared/ctl-bus.h"
#include "tools/xschedctl/xschedctl-usage.h"

#define RUNNERS_MAX 4U

/* --- statistics --- */

int statistics_fetch(Ctl *c, sd_bus_error *e, Value *ret) {
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *reply = NULL;

        int r = ctl_call_method(c, NULL, NULL, "ListStatistics", e, &reply, "t", UINT64_C(0));
        if (r < 0 && sd_bus_error_has_name(e, SD_BUS_ERROR_UNKNOWN_METHOD)) {
                sd_bus_error_free(e);
                *ret = (Value){};
                return 0;
        }
        return r < 0 ? r : value_read(reply, ret);
}

static const Value *dict_get(const Value *dict, const char *key) {
        static const Value none = {};

        for (size_t i = 0; dict->type == VALUE_DICT && i + 1 < dict->n_items; i += 2)
                if (streq(strempty(value_get_string(dict->items + i)), key))
                        return dict->items + i + 1;
        return &none;
}

/* One of (kind, name, device, values). */
static bool is_entry(const Value *v, const char *kind) {
        return v->type == VALUE_LIST && v->n_items == 4 && streq(strempty(value_get_string(v->items)), kind);
}

static const char *entry_text(const Value *v, size_t i) {
        return strempty(value_get_string(v->items + i));
}

static size_t list_length(const Value *list) {
        return list && list->type == VALUE_LIST ? list->n_items : 0;
}

static const Value *find_entry(const Value *list, const Value *like) {
        for (size_t i = 0; i < list_length(list); i++) {
                const Value *v = list->items + i;
                if (is_entry(v, entry_text(like, 0)) && streq(entry_text(v, 1), entry_text(like, 1)) &&
                                streq(entry_text(v, 2), entry_text(like, 2)))
                        return v;
        }
        return NULL;
}

/* How much it grew. One that shrank began anew. */
static uint64_t grown(const Value *now, const Value *before, const char *key) {
        uint64_t a = before ? value_get_uint(dict_get(before->items + 3, key)) : 0,
                 b = value_get_uint(dict_get(now->items + 3, key));

        return b >= a ? b - a : b;
}

bool device_use_next(const Value *now, const Value *before, size_t *i, DeviceUse *ret) {
        for (; *i < list_length(now); (*i)++) {
                const Value *v = now->items + *i;
                if (!is_entry(v, "device"))
                        continue;
                const Value *was = find_entry(before, v);
                *ret = (DeviceUse){
                                .id = entry_text(v, 2),
                                .name = strempty(value_get_string(dict_get(v->items + 3, "Name"))),
                                .busy_us = grown(v, was, "BusyUSec"),
                                .kept_us = grown(v, was, "KeptUSec"),
                                .idle_us = grown(v, was, "IdleUSec"),
                };
                (*i)++;
                return true;
        }
        return false;
}

/* --- who --- */

typedef struct Runner {
        const char *name;
        uint64_t us;
} Runner;

static int compare_runners(const void *a, const void *b) {
        const Runner *x = a, *y = b;

        return x->us != y->us ? (x->us < y->us ? 1 : -1) : strcmp(x->name, y->name);
}

static size_t collect_runners(const Value *now, const Value *before, const char *device, Runner *ret) {
        size_t n = 0;

        for (size_t i = 0; i < list_length(now); i++) {
                const Value *v = now->items + i;
                if (!is_entry(v, "group") || !streq(entry_text(v, 2), device))
                        continue;
                ret[n] = (Runner){.name = entry_text(v, 1), .us = grown(v, find_entry(before, v), "RunUSec")};
                n += ret[n].us > 0;
        }
        qsort(ret, n, sizeof(Runner), compare_runners);
        return n;
}

char *device_use_runners(const Value *now, const Value *before, const char *device, double whole_us) {
        _cleanup_free_ Runner *runners = calloc(list_length(now) + 1, sizeof(Runner));
        char *text = NULL;
        uint64_t rest = 0;
        size_t size;
        FILE *f = runners ? open_memstream(&text, &size) : NULL;

        if (!f)
                return NULL;
        size_t n = collect_runners(now, before, device, runners);
        for (size_t i = 0; i < n && whole_us > 0; i++)
                if (i < RUNNERS_MAX)
                        fprintf(f, "%s%s %.1f%%", i > 0 ? ", " : "", runners[i].name,
                                        (double) runners[i].us * 100 / whole_us);
                else
                        rest += runners[i].us;
        if (rest > 0)
                fprintf(f, ", others %.1f%%", (double) rest * 100 / whole_us);
        if (fclose(f) != 0) {
                free(text);
                return NULL;
        }
        return text;
}

/* --- between two looks --- */

enum { DEVICE_ID, DEVICE_RUN, DEVICE_KEPT, DEVICE_IDLE, DEVICE_BY, _DEVICE_COLUMN_MAX };

static const Column share_columns[_DEVICE_COLUMN_MAX] = {
                [DEVICE_ID] = {"DEVICE", "", CELL_PLAIN, COLUMN_ELASTIC},
                [DEVICE_RUN] = {"%RUN", "", CELL_PERCENT, COLUMN_RIGHT},
                [DEVICE_KEPT] = {"%KEPT", "", CELL_PERCENT, COLUMN_RIGHT},
                [DEVICE_IDLE] = {"%IDLE", "", CELL_PERCENT, COLUMN_RIGHT},
                [DEVICE_BY] = {"RUN BY", "", CELL_PLAIN, COLUMN_ELASTIC},
};

bool device_share_next(const Value *now, const Value *before, double whole_us, size_t *i, DeviceShare *ret) {
        DeviceUse u;

        if (!device_use_next(now, before, i, &u))
                return false;
        *ret = (DeviceShare){.id = u.id, .known = whole_us > 0};
        if (!ret->known)
                return true;
        ret->run = (double) u.busy_us * 100 / whole_us;
        ret->kept = (double) u.kept_us * 100 / whole_us;
        ret->idle = MAX(100 - ret->run - ret->kept, 0.0);
        return true;
}

int device_share_table(const Value *now, const Value *before, double whole_us, Table *ret) {
        DeviceShare d;

        *ret = (Table) TABLE_INIT(share_columns);
        for (size_t i = 0; device_share_next(now, before, whole_us, &i, &d);) {
                Value *cells = table_add(ret, TABLE_NO_PARENT);

                if (!cells)
                        return -ENOMEM;
                cells[DEVICE_ID] = value_string(d.id);
                if (!d.known)
                        continue;
                cells[DEVICE_RUN] = value_double(d.run);
                cells[DEVICE_KEPT] = value_double(d.kept);
                cells[DEVICE_IDLE] = value_double(d.idle);
                _cleanup_free_ char *by = device_use_runners(now, before, d.id, whole_us);
                cells[DEVICE_BY] = value_string(by);
        }
        return 0;
}

/* --- waits --- */

WaitParts group_wait_parts(const Object *group) {
        uint64_t wait = object_get_uint(group, "WaitUSec"), drain = object_get_uint(group, "DrainWaitUSec"),
                 service = object_get_uint(group, "ServiceWaitUSec");

        drain = MIN(drain, wait);
        service = MIN(service, wait - drain);
        return (WaitParts){.policy_us = wait - drain - service, .drain_us = drain, .service_us = service};
}

const char *group_time_source(const Object *group) {
        return object_get_string(group, "GPUTimeSource");
}

const char *time_source_mark(const char *source, const char *state) {
        if (streq(source, "sampled") || streq(source, "driver"))
                return "~";
        /* A group that does nothing has nothing to be counted. */
        return streq(source, "none") && streq(state, "running") ? "?" : NULL;
}

/* --- for people --- */

static const char *source_in_words(const char *source) {
        static const struct {
                const char *source, *words;
        } table[] = {
                        {"tracked", "every launch is counted"},
                        {"sampled", "some launches are measured, the rest is estimated"},
                        {"driver", "as the driver counts it"},
                        {"none", "what it does now is not counted"},
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++)
                if (streq(table[i].source, source))
                        return table[i].words;
        return source;
}

void print_device_use(const Snapshot *s, const Value *statistics) {
        size_t i = 0;
        DeviceUse u;

        while (device_use_next(statistics, NULL, &i, &u)) {
                double whole = (double) u.busy_us + (double) u.kept_us + (double) u.idle_us;
                char span[32];

                if (!snapshot_find_by_name(s, OBJECT_DEVICE, u.id) || whole <= 0)
                        continue;
                _cleanup_free_ char *runners = device_use_runners(statistics, NULL, u.id, whole);
                printf("      Time: %s: of %s in use %.1f%%", u.id, format_usec(span, sizeof(span), (uint64_t) whole),
                                (double) u.busy_us * 100 / whole);
                if (!isempty(runners)) {
                        printf(" (");
                        print_text(stdout, runners);
                        putchar(')');
                }
                printf(", kept idle though wanted %.1f%%, idle %.1f%%\n", (double) u.kept_us * 100 / whole,
                                (double) u.idle_us * 100 / whole);
        }
}

static void print_part(const char *before, uint64_t us, const char *what) {
        char span[32];

        if (us > 0)
                printf("%s%s %s", before, format_usec(span, sizeof(span), us), what);
}

void print_group_use(const Snapshot *s) {
        const Object *g;

        SNAPSHOT_FOREACH(g, s, OBJECT_GROUP) {
                uint64_t run = object_get_uint(g, "GPUTimeUSec"), kept = object_get_uint(g, "KeptUSec");
                WaitParts w = group_wait_parts(g);
                uint64_t wait = w.policy_us + w.drain_us + w.service_us;
                const char *source = group_time_source(g);
                char span[32];

                if (run + wait + kept == 0)
                        continue;
                printf("     Group: ");
                print_text(stdout, object_get_string(g, "Name"));
                printf(" ran %s", format_usec(span, sizeof(span), run));
                if (!isempty(source))
                        printf(" (%s)", source_in_words(source));
                if (kept > 0)
                        printf(", had devices kept idle for it for %s", format_usec(span, sizeof(span), kept));
                if (wait > 0)
                        printf(", and waited %s", format_usec(span, sizeof(span), wait));
                print_part(": ", w.policy_us, "for others' turns and limits");
                print_part(w.policy_us > 0 ? ", " : ": ", w.drain_us, "for others' work to drain");
                print_part(w.policy_us + w.drain_us > 0 ? ", " : ": ", w.service_us, "for the service");
                putchar('\n');
        }
}
