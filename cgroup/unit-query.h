/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What systemd knows of a unit that is ours to read
 *
 * Two carriers of settings that need no cooperation of systemd beyond what it does anyway:
 *
 *   - Environment=XSCHED_CLASS=batch and LogExtraFields=XSCHED_CLASS=batch, which "systemd-run --property=" takes, too.
 *     They are read from systemd, never from the process, which could have put anything into its environment;
 *   - sections [X-XSched] of the unit's file and drop-ins, which systemd skips. Their places are systemd's to tell.
 *
 * A query is asynchronous: systemd may be busy for seconds, and waits for nobody. It ends with one call of its
 * callback, or with unit_query_free(), whichever comes first. A bus without a systemd, or a unit that is gone, is a
 * unit of which nothing is known.
 */

#include <systemd/sd-bus.h>

#include "common/macro.h"

typedef struct UnitQuery UnitQuery;

typedef struct UnitFacts {
        char **files; /* NULL-terminated, in the order of reading: the unit file, its drop-ins */
        char **environment, **log_fields; /* NULL-terminated, KEY=value; only keys that begin with XSCHED_ */
} UnitFacts;

/* The facts are valid during the call only. The query is over, and may be freed. */
typedef void (*unit_query_done_t)(const UnitFacts *facts, void *userdata);

int unit_query_new(sd_bus *bus, const char *unit, unit_query_done_t done, void *userdata, UnitQuery **ret);
UnitQuery *unit_query_free(UnitQuery *q);

/* The bytes of a unit file with all but the lines of `section` blanked, so that line numbers stay true. -ENOENT when
 * the file is not there, -EFBIG when it is too large to be a unit's. */
int unit_file_read_section(const char *path, const char *section, char **ret, size_t *ret_size);

/* Whether the last component of a cgroup's path names a unit of the system's manager: a slice, service or scope that is
 * not below another service or scope. The root is -.slice. Returns > 0 and its name (newly allocated), or 0. */
int cgroup_path_is_unit(const char *path, char **ret);
