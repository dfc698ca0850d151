/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Classes: reading them
 */

#include <inttypes.h>
#include <stdio.h>

#include "class.h"
#include "common/array.h"
#include "common/conf-types.h"
#include "common/parse-util.h"
#include "service/base/log.h"

#define CLASS_SUFFIX            ".class"
#define FREEZE_AFTER_MAX        (600 * NSEC_PER_SEC)
#define FREEZE_AFTER_DEFAULT_US 500000U

static int type_preemption(const char *value, const ConfItem *item, void *data) {
        int r = preemption_from_string(value);
        if (r < 0)
                return -EINVAL;
        *(Preemption *) data = (Preemption) r;
        return 0;
}

const ConfType conf_type_preemption = {"one of auto, off, 1, 2, 3 and privileged", type_preemption, NULL};

static int type_accounting(const char *value, const ConfItem *item, void *data) {
        int r = accounting_from_string(value);
        if (r < 0)
                return -EINVAL;
        *(Accounting *) data = (Accounting) r;
        return 0;
}

const ConfType conf_type_accounting = {"one of auto, exact, sampled and off", type_accounting, NULL};

static int put_percent(uint64_t v, const ConfItem *item, void *data) {
        if (v < (uint64_t) item->min || v > (uint64_t) item->max)
                return -ERANGE;
        *(uint32_t *) data = (uint32_t) v;
        return 0;
}

static int type_percent(const char *value, const ConfItem *item, void *data) {
        uint64_t v;
        int r = parse_percent(value, &v);

        return r < 0 ? r : put_percent(v, item, data);
}

static int type_limit(const char *value, const ConfItem *item, void *data) {
        uint64_t v;
        int r = parse_limit(value, &v);

        return r < 0 ? r : put_percent(v, item, data);
}

static const char *format_percent(char *buf, size_t size, int64_t limit) {
        (void) snprintf(buf, size, "%" PRIi64 "%%", limit);
        return buf;
}

const ConfType conf_type_percent = {"a percentage (\"25%\")", type_percent, format_percent};
const ConfType conf_type_limit = {"a percentage (\"25%\"), or infinity", type_limit, format_percent};

static const ConfItem class_items[] = {
                [SETTINGS_CLASS] = CONF_ITEM("Description", conf_type_string, Class, description, 0, 0),
                [_SETTINGS_KEY_MAX] = CONF_ITEM("Freeze", conf_type_bool, Class, freeze, 0, 0),
                [_SETTINGS_KEY_MAX + 1] =
                                CONF_ITEM("FreezeAfter", conf_type_usec, Class, freeze_after_us, 0, FREEZE_AFTER_MAX),
                CLASS_SETTINGS_ITEMS(Class)};
#define CLASS_SETTINGS_MASK (((UINT64_C(1) << _SETTINGS_KEY_MAX) - 1) & ~(UINT64_C(1) << SETTINGS_CLASS))

static const Class class_defaults = {
                .settings = CLASS_SETTINGS_DEFAULT,
                .freeze_after_us = FREEZE_AFTER_DEFAULT_US,
};

/* One class being read. */
typedef struct Reading {
        Class class;
        const Class *last_good;
} Reading;

static int class_open(const char *argument, void *userdata, ConfTarget *ret) {
        Reading *r = userdata;

        *ret = (ConfTarget){
                        .data = &r->class,
                        .defaults = &class_defaults,
                        .last_good = r->last_good,
                        .set = &r->class.given,
                        .last_good_set = r->last_good ? r->last_good->given : 0,
        };
        return 0;
}

static int match_open(const char *argument, void *userdata, ConfTarget *ret) {
        return 0;
}

static int match_line(const ConfItem *item, const char *value, const char *file, unsigned line, void *userdata) {
        Reading *r = userdata;

        return match_assign(&r->class.match, item, value, file, line);
}

const ConfSection class_sections[] = {
                {.name = "Class", .items = class_items, .n_items = ELEMENTSOF(class_items), .open = class_open},
                {.name = "Match",
                                .items = match_items,
                                .n_items = ELEMENTSOF(match_items),
                                .open = match_open,
                                .assign = match_line},
};
const size_t class_sections_n = ELEMENTSOF(class_sections);

const Class *classes_find(const Classes *c, const char *name) {
        for (size_t i = 0; i < c->n; i++)
                if (streq(c->classes[i].name, name))
                        return c->classes + i;
        return NULL;
}

const Class *classes_match(const Classes *c, const MatchFacts *f, const MatchFacts *except) {
        for (size_t i = 0; c->any_match && i < c->n; i++) {
                const Match *m = &c->classes[i].match;
                if (match_test(m, f) && !(except && match_test(m, except)))
                        return c->classes + i;
        }
        return NULL;
}

/* Takes ownership of the class's memory. */
static int classes_add(Classes *c, Class *class) {
        Class *grown = array_grow(c->classes, c->n, sizeof(Class));
        if (!grown)
                return -ENOMEM;
        c->classes = grown;
        c->any_match |= class->match.n > 0;
        c->any_executable |= match_has(&class->match, MATCH_EXECUTABLE);
        c->any_freeze |= class->freeze;
        c->classes[c->n++] = *class;
        class->match = MATCH_NULL;
        return 0;
}

static void reading_done(Reading *r) {
        match_done(&r->class.match);
}

static int compare_classes(const void *a, const void *b) {
        return strcmp(((const Class *) a)->name, ((const Class *) b)->name);
}

/* Makes "batch" of "/etc/xsched/classes.d/batch.class"; -EINVAL when that cannot be a name. */
static int name_of(const char *path, char ret[static CLASS_NAME_MAX]) {
        const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
        size_t n = strlen(base) - strlen(CLASS_SUFFIX);
        char name[CLASS_NAME_MAX] = "";

        if (n >= sizeof(name))
                return -EINVAL;
        (void) snprintf(name, sizeof(name), "%.*s", (int) n, base);
        if (!class_name_is_valid(name))
                return -EINVAL;
        memcpy(ret, name, sizeof(name));
        return 0;
}

/* Keeps the former [Match] section when the new one has a bad line: it might match more than its author meant. */
static int match_restore(const char *path, const ConfContext *context, Reading *reading) {
        const Match *former = reading->last_good ? &reading->last_good->match : NULL;

        if (!former || former->broken) {
                conf_report(context, CONF_ERROR, path, 0, -EINVAL,
                                "[Match] has mistakes, so the class takes no process");
                return 0;
        }
        match_done(&reading->class.match);
        int r = match_copy(former, &reading->class.match);
        if (r < 0)
                return r;
        conf_report(context, CONF_ERROR, path, 0, -EINVAL,
                        "[Match] has mistakes, so the whole section stays as it was");
        return 0;
}

static int class_load(const char *path, const char *const *dirs, ConfContext *context, Reading *reading) {
        _cleanup_(conf_files_done)
        ConfFiles drop_ins = CONF_FILES_NULL;
        char subdir[CLASS_NAME_MAX + sizeof(CLASS_SUFFIX ".d")];

        int first_error = conf_parse_file(context, path);
        if (first_error == -ENOMEM)
                return first_error;

        (void) snprintf(subdir, sizeof(subdir), "%s" CLASS_SUFFIX ".d", reading->class.name);
        int r = conf_files_list(dirs, subdir, ".conf", context, &drop_ins);
        if (r < 0 && first_error == 0)
                first_error = r;
        for (size_t i = 0; i < drop_ins.n && r != -ENOMEM; i++) {
                r = conf_parse_file(context, drop_ins.paths[i]);
                if (r < 0 && first_error == 0)
                        first_error = r;
        }
        reading->class.settings.mask = (unsigned) (reading->class.given & CLASS_SETTINGS_MASK);
        if (r != -ENOMEM && reading->class.match.broken)
                r = match_restore(path, context, reading);
        return r == -ENOMEM ? r : first_error;
}

int classes_load(const char *const *dirs, const Classes *last_good, ConfReport report, void *userdata, Classes *ret) {
        _cleanup_(conf_files_done)
        ConfFiles files = CONF_FILES_NULL;
        _cleanup_(classes_done)
        Classes classes = CLASSES_NULL;
        _cleanup_(reading_done)
        Reading reading = {0};
        ConfContext context = {
                        .sections = class_sections,
                        .n_sections = class_sections_n,
                        .userdata = &reading,
                        .report = report,
                        .report_userdata = userdata,
        };

        int first_error = conf_files_list(dirs, NULL, CLASS_SUFFIX, &context, &files);
        if (first_error == -ENOMEM)
                return first_error;
        for (size_t i = 0; i < files.n; i++) {
                reading = (Reading){.class = class_defaults};
                if (name_of(files.paths[i], reading.class.name) < 0) {
                        conf_report(&context, CONF_ERROR, files.paths[i], 0, -EINVAL,
                                        "The file's name is no name for a class, ignored");
                        continue;
                }
                reading.last_good = last_good ? classes_find(last_good, reading.class.name) : NULL;
                int r = class_load(files.paths[i], dirs, &context, &reading);
                if (r == -ENOMEM)
                        return r;
                if (r < 0 && first_error == 0)
                        first_error = r;
                r = classes_add(&classes, &reading.class); /* empties reading.class */
                if (r < 0)
                        return r;
        }
        if (first_error < 0 && last_good)
                return first_error;

        if (!classes_find(&classes, "default")) {
                Class fallback = class_defaults;
                (void) snprintf(fallback.name, sizeof(fallback.name), "default");
                (void) snprintf(fallback.description, sizeof(fallback.description),
                                "Everything that is in no other class");
                int r = classes_add(&classes, &fallback);
                if (r < 0)
                        return r;
        }
        if (classes.n > 1)
                qsort(classes.classes, classes.n, sizeof(Class), compare_classes);
        *ret = TAKE_GENERIC(classes, CLASSES_NULL);
        return 0;
}

void classes_done(Classes *c) {
        for (size_t i = 0; i < c->n; i++)
                match_done(&c->classes[i].match);
        free(c->classes);
        *c = CLASSES_NULL;
}
