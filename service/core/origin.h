/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Origins: what stands with a cgroup, and settles how its processes are scheduled
 *
 * One origin for the cgroup of each group, and for each cgroup above it; they make a tree, kept alive by the groups. An
 * origin holds what the carriers say: extended attributes of the cgroup's directory, the unit's files, and the unit's
 * properties, as systemd tells them. The origin's own come first, then what its parents say, up to the root: that is
 * how a slice's settings are inherited.
 *
 * Everything is read when the origin is made, when its group gets a first process, when systemd has reloaded its files
 * (nothing else can change what systemd says of a unit that runs, and PropertiesChanged of it therefore tells nothing),
 * and when the configuration is read again. systemd answers later: a group that has just been made is scheduled by what
 * is known, and by what was meant a moment after.
 */

#include "cgroup/unit-query.h"
#include "manager.h"
#include "service/settings/settings.h"

typedef struct Origin Origin;

typedef enum OriginOwner {
        ORIGIN_OWNER_UNKNOWN, /* there is no directory, or none to be seen */
        ORIGIN_OWNER_ROOT,
        ORIGIN_OWNER_OTHER, /* or anybody */
} OriginOwner;

struct Origin {
        Manager *manager;
        Origin *parent;
        char *path; /* of the cgroup */
        char *unit; /* NULL when it is none of the system's manager */
        unsigned n_refs;

        Settings file, property;
        Settings environment; /* what of `property` its processes have in their environment, too */
        Settings attr;        /* where root owns the directory */
        Settings lowered;     /* where another user does, and user.xsched.lower.*: these only lower */
        OriginOwner owner;    /* of the directory: who makes, and names, cgroups in there */
        Settings told;        /* by processes of a user's manager, of its unit: these, too (user-units.h) */
        int attr_watch;       /* its number; 0: none */
        char *file_detail;    /* the last file that said something */
        UnitQuery *query;
        bool asked; /* and not answered yet */

        UT_hash_handle hh;
};

int origin_get(Manager *m, const char *cgroup, Origin **ret);
Origin *origin_unref(Origin *o);

/* Reads everything again. */
void origin_refresh(Origin *o);
void origins_refresh(Manager *m);

/* The first process came since it was made for settings alone, or since the last one went: the unit, and the cgroup,
 * may be new ones of the same name. */
void origin_revisit(Origin *o);

/* What the unit of the cgroup puts into the environment of its processes. `o` may be NULL. */
const Settings *origin_environment(const Origin *o);

/* Follows systemd's reloads. */
int origins_attach(Manager *m, sd_bus *bus);

/* layers.c: the layers of the origin, `match` (may be NULL), and the layers of those above it, strongest first.
 * `inherited`: for somebody who is none of the cgroup, and is given what it has. */
#define ORIGIN_LAYERS     5U /* of each: override of a parent, its job, attributes, file, property */
#define ORIGIN_DEPTH      8U /* from the nearest eight that say anything */
#define ORIGIN_LAYERS_MAX (ORIGIN_LAYERS * ORIGIN_DEPTH + 1)
size_t origin_layers(const Origin *o, bool inherited, const SettingsLayer *match,
                SettingsLayer layers[static ORIGIN_LAYERS_MAX]);

/* What users said who own the origin or one above it, and are not root, by attributes, in units of their managers, and
 * by jobs and over the bus (but not those two of the origin's own group, unless `inherited`): applied last, and only
 * ever lowering. `o` may be NULL. */
#define ORIGIN_LOWERING_MAX (4U * ORIGIN_DEPTH)
size_t origin_lowering_layers(
                const Origin *o, bool inherited, SettingsLayer layers[static ORIGIN_LOWERING_MAX]);

/* What is told of its unit by who is in it. */
void origin_set_told(Origin *o, const Settings *s);

/* Whether it is the cgroup, or the unit, of this name. */
bool origin_is(const Origin *o, const char *name);

/* Whether one of those above is the cgroup, or the unit, of this name. */
bool origin_inherits_from(const Origin *o, const char *name);

/* What the carriers say, one by one, from whoever wrote it: [X-XSched] of files (NULL-terminated, in the order of
 * reading), "XSCHED_KEY=value", an attribute (the origin is `userdata`). What cannot be taken is logged. */
void origin_take_files(Origin *o, char **files);
void origin_take_assignment(const Origin *o, const char *assignment, Settings *ret);
void origin_take_attribute(const char *key, const char *value, void *userdata);
