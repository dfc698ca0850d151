/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Origin: the settings that a cgroup's directory and unit carry
 *
 * The cgroup of each group, and each cgroup above it, has an origin; origins form a tree, kept alive by the groups. An
 * origin holds settings from three carriers: extended attributes of the cgroup's directory, the unit's files, and the
 * unit's properties, as systemd tells them. Its own settings come before those of its parents, up to the root: that is
 * how a slice's settings are inherited.
 *
 * Everything is read when the origin is made, when its group gets a first process, when systemd has reloaded its files
 * (nothing else changes the properties that systemd has of a running unit, so PropertiesChanged is not needed), and
 * when the configuration is read again. systemd answers asynchronously: a new group is scheduled by the settings known
 * so far, and by the unit's a moment later.
 */

#include "cgroup/unit-query.h"
#include "manager.h"
#include "service/settings/match.h"
#include "service/settings/settings.h"

typedef struct Origin Origin;

typedef enum OriginOwner {
        ORIGIN_OWNER_UNKNOWN, /* there is no directory, or it is not visible */
        ORIGIN_OWNER_ROOT,
        ORIGIN_OWNER_OTHER, /* a user other than root */
} OriginOwner;

/* An attribute that is no setting: user.xsched.label.namespace, ... */
typedef struct OriginLabel {
        char *key, *value;
        bool claimed; /* user.xsched.claim.*: the user who started the container says so */
        struct OriginLabel *next;
} OriginLabel;

struct Origin {
        Manager *manager;
        Origin *parent;
        char *path; /* of the cgroup */
        char *unit; /* NULL: not a unit of the system's manager */
        unsigned n_refs;

        Settings file, property;
        Settings environment; /* the part of `property` that its processes also have in their environment */
        Settings attr;        /* attributes, where root owns the directory */
        Settings lowered;     /* attributes where another user owns it, and user.xsched.lower.*: these only lower */
        OriginLabel *labels;  /* utlist, at most MATCH_LABELS_MAX */
        OriginOwner owner;    /* of the directory: can make and name cgroups in it */
        Settings told;        /* told of its unit by processes of a user's manager: only lower (user-units.h) */
        int attr_watch;       /* watch descriptor; 0: none */
        char *file_detail;    /* the last file with settings */
        UnitQuery *query;     /* service/bus/origin-dbus.c: the question to systemd */
        bool asked;           /* systemd has not answered yet */

        UT_hash_handle hh;
};

int origin_get(Manager *m, const char *cgroup, Origin **ret);
Origin *origin_unref(Origin *o);

/* Reads all carriers again. */
void origin_refresh(Origin *o);
void origins_refresh(Manager *m);

/* Called for the first process since the origin was made in advance, or since its last process ended: its unit and
 * cgroup may be new ones of the same name. */
void origin_revisit(Origin *o);

/* Settings that the cgroup's unit puts into the environment of its processes. `o` may be NULL. */
const Settings *origin_environment(const Origin *o);

/* Sets the settings that a process told of the origin's unit. */
void origin_set_told(Origin *o, const Settings *s);

/* Takes systemd's facts of the unit, which observers_origin_asks() asked for. */
void origin_take_facts(Origin *o, const UnitFacts *facts);

/* Take settings from one carrier each: [X-XSched] of files (NULL-terminated, in the order of reading),
 * "XSCHED_KEY=value", an attribute (`userdata` is the origin). Invalid settings are logged, because any user may have
 * written them. */
void origin_take_files(Origin *o, char **files);
void origin_take_assignment(const Origin *o, const char *assignment, Settings *ret);
void origin_take_attribute(const char *key, const char *value, void *userdata);
