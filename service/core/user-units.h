/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * User units: what the manager of a user says of its units, told by their processes
 *
 * The service cannot ask a user's manager: its socket and the user's files are the user's alone. The library in a
 * process asks it, and the process tells the service when it registers. What is told could be anything, and comes from
 * the user himself; therefore it only ever lowers, and counts for cgroups below his own manager only, among those that
 * the process is in. The kernel says which these are.
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

/* Of one registration: eight units with every key in its file, its properties and its environment. */
#define USER_UNITS_ASSIGNMENTS_MAX 256U

void user_units_done(UserUnits *u);

/* "Key=Value" of a unit, as files have it; the later one of a key holds, and nothing behind "=" takes it back. What
 * makes no sense is passed over, and so is what is too much. An empty assignment names a unit of which nothing is said.
 * 0 or -ENOMEM. */
int user_units_add(UserUnits *u, const char *unit, const char *assignment);
int user_units_add_settings(UserUnits *u, const char *unit, const Settings *s);

/* What is told by a process of this user in the cgroup of the origin. It replaces what was told before of the same
 * units. */
void user_units_apply(const UserUnits *u, uid_t uid, Origin *o);
