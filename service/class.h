/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Classes: named settings, one file each
 *
 * NAME.class in classes.d of /etc/xsched, /run/xsched and /usr/lib/xsched, with drop-ins in NAME.class.d/. A class holds
 * only the keys that its files give. The class "default" always exists, with or without a file.
 *
 * [Match] says whose class it is by itself. Of several classes that match, the first by name is taken, and counts as if it had been
 * assigned there: it stands below what the unit itself says, and above what its slices say.
 */

#include "common/conf-files.h"
#include "match.h"
#include "settings.h"

#define CLASS_DESCRIPTION_MAX 128U

typedef struct Class {
        char name[SETTINGS_CLASS_MAX];
        char description[CLASS_DESCRIPTION_MAX];
        Settings settings; /* never names a class: classes do not nest */
        bool freeze;       /* a suspended unit is frozen, too: freeze.h */
        uint64_t given;    /* bits of class_sections' items */
        Match match;
} Class;

/* Sorted by name; "default" is always among them. */
typedef struct Classes {
        Class *classes;
        size_t n;
        bool any_match; /* one of them has a [Match] */
} Classes;

#define CLASSES_NULL ((Classes){0})

/* The directories hold classes.d-like content themselves, highest precedence first. `last_good` (may be NULL) is what was in force.
 * Fails with the first error of a file or directory that cannot be read, when there is a last_good to go on with; else only
 * with -ENOMEM. */
int classes_load(const char *const *dirs, const Classes *last_good, ConfReport report, void *userdata,
                Classes *ret);
void classes_done(Classes *c);

const Class *classes_find(const Classes *c, const char *name);

/* Preemption, by its name. */
extern const ConfType conf_type_preemption;
extern const ConfType conf_type_percent; /* into uint32_t */

/* The first that matches; NULL when none does. Those that match `except` (may be NULL) do not count. */
const Class *classes_match(const Classes *c, const MatchFacts *f, const MatchFacts *except);

/* [Class] and [Match], for the test that compares it with the manual page. */
extern const ConfSection class_sections[];
extern const size_t class_sections_n;
