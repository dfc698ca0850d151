/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Classes: named settings, one file each
 *
 * NAME.class in classes.d of /etc/xsched, /run/xsched and /usr/lib/xsched, with drop-ins in NAME.class.d/. A class
 * holds only the keys that its files give. The class "default" always exists, with or without a file.
 *
 * [Match] selects the processes that have the class without being assigned to it. Of several classes that match, the
 * first by name is taken, and counts as if it had been assigned there: it comes below what the unit itself says, and
 * above what its slices say.
 */

#include "common/conf-files.h"
#include "common/conf-types.h"
#include "match.h"
#include "settings.h"

#define CLASS_DESCRIPTION_MAX 128U

typedef struct Class {
        char name[CLASS_NAME_MAX];
        char description[CLASS_DESCRIPTION_MAX];
        Settings settings;        /* never names a class: classes do not nest */
        bool freeze;              /* a unit that is suspended, or does not keep to a hold, is frozen, too: freeze.h */
        uint32_t freeze_after_us; /* overdue.h; 0: only when it is suspended */
        uint64_t given;           /* bits of class_sections' items */
        Match match;
} Class;

/* Sorted by name; "default" is always among them. */
typedef struct Classes {
        Class *classes;
        size_t n;
        bool any_match;      /* one of them has a [Match] */
        bool any_executable; /* with Executable= */
        bool any_freeze;
} Classes;

#define CLASSES_NULL ((Classes){0})

/* The directories hold classes.d-like content themselves, highest precedence first. `last_good` (may be NULL) is what
 * was in force. Fails with the first error of a file or directory that cannot be read, when there is a last_good to go
 * on with; else only with -ENOMEM. */
int classes_load(const char *const *dirs, const Classes *last_good, ConfReport report, void *userdata, Classes *ret);
void classes_done(Classes *c);

const Class *classes_find(const Classes *c, const char *name);

/* Preemption, by its name. */
extern const ConfType conf_type_preemption;
extern const ConfType conf_type_accounting;
extern const ConfType conf_type_percent; /* into uint32_t */
extern const ConfType conf_type_limit;   /* the same */

/* Items of the settings that files can have, in the order of SettingsKey, so that the reader's `given` is also the mask
 * of the `settings` that it reads into. SETTINGS_CLASS is the file's own. */
#define CLASS_ITEM_OF(type, index, key, field, conf_type, min, max)                                                    \
        [index] = CONF_ITEM(key, conf_type, type, settings.field, min, max),
#define CLASS_ITEM_INT(type, index, key, field, min, max)                                                              \
        CLASS_ITEM_OF(type, index, key, field, conf_type_int, min, max)
#define CLASS_ITEM_UINT(type, index, key, field, min, max)                                                             \
        CLASS_ITEM_OF(type, index, key, field, conf_type_uint, min, max)
#define CLASS_ITEM_PERCENT(type, index, key, field, min, max)                                                          \
        CLASS_ITEM_OF(type, index, key, field, conf_type_percent, min, max)
#define CLASS_ITEM_LIMIT(type, index, key, field, min, max)                                                            \
        CLASS_ITEM_OF(type, index, key, field, conf_type_limit, min, max)
#define CLASS_ITEM_USEC(type, index, key, field, min, max)                                                             \
        CLASS_ITEM_OF(type, index, key, field, conf_type_usec, (min) *NSEC_PER_USEC, (max) *NSEC_PER_USEC)
#define CLASS_ITEM_BOOL(type, index, key, field, min, max) CLASS_ITEM_OF(type, index, key, field, conf_type_bool, 0, 0)
#define CLASS_ITEM_PREEMPTION(type, index, key, field, min, max)                                                       \
        CLASS_ITEM_OF(type, index, key, field, conf_type_preemption, 0, 0)
#define CLASS_ITEM_ACCOUNTING(type, index, key, field, min, max)                                                       \
        CLASS_ITEM_OF(type, index, key, field, conf_type_accounting, 0, 0)
#define CLASS_ITEM_CLASS(type, index, key, field, min, max)
#define CLASS_ITEM(type, KEY, Name, name, field, TYPE, min, max, ...)                                                  \
        CLASS_ITEM_##TYPE(type, SETTINGS_##KEY, #Name, field, min, max)
#define CLASS_SETTINGS_ITEMS(type) SETTING_ROWS(CLASS_ITEM, type)

/* The default of a setting that the file does not give. */
#define CLASS_DEFAULT(arg, KEY, Name, name, field, TYPE, min, max, usual, ...) .field = usual,
#define CLASS_SETTINGS_DEFAULT                                                                                         \
        { SETTING_ROWS(CLASS_DEFAULT, ) }

/* Returns the first class that matches; NULL when none does. Ignores classes that match `except`, which may be NULL. */
const Class *classes_match(const Classes *c, const MatchFacts *f, const MatchFacts *except);

/* [Class] and [Match], for the test that compares it with the manual page. */
extern const ConfSection class_sections[];
extern const size_t class_sections_n;
