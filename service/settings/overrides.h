/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Overrides: settings of groups and devices that were made at run time and outlive a reboot
 *
 * One file in the state directory, overrides.json, with a version, read at the start and written anew as a whole with
 * every change (state-file.h). A change is in force only when it is on the disk; a change that cannot be written fails.
 *
 * Settings of a unit of the system's manager are kept by the unit's name, whatever slice it is in; those of other
 * cgroups by the cgroup's path; those of devices by the id. The group or device need not exist: it finds its settings
 * when it appears. A file with invalid parts is renamed and kept for people to look at; its valid parts are in force.
 */

#include <uthash.h>

#include "common/process.h"
#include "device-settings.h"
#include "settings.h"

#define OVERRIDES_FILE    "overrides.json"
#define OVERRIDES_VERSION 1
#define OVERRIDES_MAX     4096U
#define OVERRIDES_DEVICES 256U
#define OVERRIDES_WHY_MAX 256U

typedef struct OverridesEntry {
        char *name;
        Settings settings;
        char boot[BOOT_ID_SIZE]; /* of a cgroup: the boot in which they were stored, */
        uint64_t cgroup_id;      /* and the id that the cgroup had then; 0: there was none */
        UT_hash_handle hh;
} OverridesEntry;

typedef struct OverridesDevice {
        char *id;
        DeviceSettings settings;
        UT_hash_handle hh;
} OverridesDevice;

/* The key of settings for every device; no device has it as its id. */
#define OVERRIDES_EVERY_DEVICE "*"

typedef struct Overrides {
        char *directory;          /* NULL: nothing can be stored */
        OverridesEntry *entries;  /* uthash, by name */
        OverridesDevice *devices; /* uthash, by id */
} Overrides;

#define OVERRIDES_NULL ((Overrides){0})

/* Reads the file, if there is one. Returns > 0 if parts of it were invalid, which were left out; `why` then says what
 * was wrong, with the file's name. */
int overrides_open(const char *directory, Overrides *ret, char why[static OVERRIDES_WHY_MAX]);
void overrides_done(Overrides *s);

static inline bool overrides_is_open(const Overrides *s) {
        return s->directory;
}

/* The stored settings of `name`; NULL: none. */
const Settings *overrides_find(const Overrides *s, const char *name);

/* Replaces the stored settings of `name`; empty ones forget it. On failure nothing changes: -E2BIG: too many entries,
 * or an error of the disk. */
int overrides_set(Overrides *s, const char *name, const Settings *settings);

/* The same of a device, or of OVERRIDES_EVERY_DEVICE. */
const DeviceSettings *overrides_find_device(const Overrides *s, const char *id);

/* Forgets the keys `forget` of what is stored for the device, and puts *set on top of what is left. Of every device:
 * whatever single devices have stored of these keys is forgotten, too. On failure nothing changes. */
int overrides_change_device(Overrides *s, const char *id, const DeviceSettings *set, unsigned forget);

/* Finds the name by which the settings of a group are stored; the group need not exist. *ret is newly allocated. */
int overrides_name(const char *group, char **ret);

/* A cgroup's path, or a unit. */
bool overrides_name_is_valid(const char *name);

/* Read and print the contents of the file. overrides_parse() adds to *s, and returns 0; > 0 when it left out invalid
 * parts, which `why` names; -EBADMSG when it is no such file, `why` says why; or -ENOMEM. */
int overrides_parse(Overrides *s, const char *text, size_t size, char why[static OVERRIDES_WHY_MAX]);
int overrides_print(const Overrides *s, char **ret, size_t *ret_size);
