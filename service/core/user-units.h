/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * User units: settings of units of a user's manager, told by their processes
 *
 * The service cannot ask a user's manager, because its socket and files belong to the user. The library in a process
 * asks it, and the process tells the service when it registers. A user can tell any settings; therefore they only
 * lower, and only count for cgroups below the user's own manager that the process is in, as the kernel says.
 */

#include "origin.h"

typedef struct UserUnit {
        char *name;
        Settings settings;
} UserUnit;

typedef struct UserUnits {
        UserUnit *items;
        size_t n; /* at most ORIGIN_DEPTH */
} UserUnits;

/* Limit per registration: eight units, with every key in the file, the properties and the environment. */
#define USER_UNITS_ASSIGNMENTS_MAX 256U

void user_units_done(UserUnits *u);

/* Adds "Key=Value" of a unit, as in its files. The last value of a key counts; an empty value removes it. Ignores
 * invalid assignments, and those beyond the limit. An empty assignment names a unit without settings. Returns 0 or
 * -ENOMEM. */
int user_units_add(UserUnits *u, const char *unit, const char *assignment);
int user_units_add_settings(UserUnits *u, const char *unit, const Settings *s);

/* Applies the units that a process of this user told, which is in the cgroup of the origin. Replaces settings that were
 * told before of the same units. */
void user_units_apply(const UserUnits *u, uid_t uid, Origin *o);
