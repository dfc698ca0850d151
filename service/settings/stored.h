/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Stored settings: those of groups that outlive a reboot
 *
 * One file in the state directory, overrides.json, with a version, read at the start and written anew as a whole with
 * every change (state-file.h). A change is in force when it is on the disk, and not before: what cannot be written has
 * not happened.
 *
 * They are kept by name: a unit of the system's manager by the unit's, whatever slice it is in, everything else by its
 * cgroup's path. There need not be such a group: it finds its settings when it appears. A file that makes no sense, as
 * a whole or in part, is kept aside for people to look at, and what of it does make sense holds.
 */

#include <uthash.h>

#include "common/process.h"
#include "settings.h"

#define STORED_FILE    "overrides.json"
#define STORED_VERSION 1
#define STORED_MAX     4096U
#define STORED_WHY_MAX 256U

typedef struct StoredEntry {
        char *name;
        Settings settings;
        char boot[BOOT_ID_SIZE]; /* of a cgroup's path: when and which it was, when something was stored for it */
        uint64_t cgroup_id;      /* 0: there was none */
        UT_hash_handle hh;
} StoredEntry;

typedef struct Stored {
        char *directory;      /* NULL: nothing can be stored */
        StoredEntry *entries; /* uthash, by name */
} Stored;

#define STORED_NULL ((Stored){0})

/* Reads the file, when there is one. > 0: there was something wrong with it (`why`, with the file's name), and it has
 * been dealt with. */
int stored_open(const char *directory, Stored *ret, char why[static STORED_WHY_MAX]);
void stored_done(Stored *s);

static inline bool stored_is_open(const Stored *s) {
        return s->directory;
}

/* What the name has stored; NULL when there is nothing. */
const Settings *stored_find(const Stored *s, const char *name);

/* All that the name has from now on; none (empty) forgets it. On failure everything is as before: -E2BIG when there are
 * too many, or what the disk said. */
int stored_set(Stored *s, const char *name, const Settings *settings);

/* Of a group that need not exist: the name that its settings are stored by. Newly allocated. */
int stored_name(const char *group, char **ret);

/* A cgroup's path, or a unit. */
bool stored_name_is_valid(const char *name);

/* The contents of the file. stored_parse() adds to s->entries, and returns 0, > 0 when it had to leave out something
 * (`why`), -EBADMSG when it is no such file at all (`why`, too), or -ENOMEM. */
int stored_parse(Stored *s, const char *text, size_t size, char why[static STORED_WHY_MAX]);
int stored_print(const Stored *s, char **ret, size_t *ret_size);
