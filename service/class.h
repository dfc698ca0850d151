/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Classes: named settings, one file each
 *
 * NAME.class in classes.d of /etc/xsched, /run/xsched and /usr/lib/xsched, with drop-ins in NAME.class.d/. A class holds
 * only the keys that its files give. The class "default" always exists, with or without a file.
 */

#include "common/conf-files.h"
#include "settings.h"

#define CLASS_DESCRIPTION_MAX 128U

typedef struct Class {
        char name[SETTINGS_CLASS_MAX];
        char description[CLASS_DESCRIPTION_MAX];
        Settings settings; /* never names a class: classes do not nest */
        uint64_t given;    /* bits of class_sections' items */
} Class;

/* Sorted by name; "default" is always among them. */
typedef struct Classes {
        Class *classes;
        size_t n;
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

/* [Class], for the test that compares it with the manual page. */
extern const ConfSection class_sections[];
extern const size_t class_sections_n;
