/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Reads a unit's settings for xsched from systemd
 *
 * Two carriers of settings that need nothing of systemd beyond what it does anyway:
 *
 *   - Environment=XSCHED_CLASS=batch and LogExtraFields=XSCHED_CLASS=batch, which "systemd-run --property=" takes, too.
 *     They are read from systemd, never from the process, which could have changed its environment;
 *   - sections [X-XSched] of the unit's file and drop-ins, which systemd skips. systemd tells where these files are.
 *
 * A query is asynchronous, because systemd may be busy for seconds. It ends with one call of its callback, or with
 * unit_query_free(), whichever comes first. Without a systemd on the bus, or for a unit that is gone, the facts are
 * empty.
 */

#include <systemd/sd-bus.h>

#include "common/macro.h"

typedef struct UnitQuery UnitQuery;

typedef struct UnitFacts {
        char **files;                     /* NULL-terminated, in the order of reading: the unit file, its drop-ins */
        char **environment, **log_fields; /* NULL-terminated, KEY=value; only keys that begin with XSCHED_ */
} UnitFacts;

/* The facts are valid during the call only. The callback may free the query, which is over. */
typedef void (*unit_query_done_t)(const UnitFacts *facts, void *userdata);

int unit_query_new(sd_bus *bus, const char *unit, unit_query_done_t done, void *userdata, UnitQuery **ret);
UnitQuery *unit_query_free(UnitQuery *q);

/* Reads a unit file and blanks all lines outside of `section`, so that line numbers stay the same. The caller frees
 * *ret. -ENOENT: no such file; -EFBIG: too large for a unit. */
int unit_file_read_section(const char *path, const char *section, char **ret, size_t *ret_size);

/* Returns > 0 and the unit's name, which the caller frees, when the last component of a cgroup's path is a unit of
 * the system's manager: a slice, service or scope that is not below another service or scope. The root is -.slice.
 * Else 0. */
int cgroup_path_is_unit(const char *path, char **ret);
