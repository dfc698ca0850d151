/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Totals: counters of groups that outlive the service, and of units the boot
 *
 * A table of TOTALS_MAX entries, mapped from a file in the runtime directory, which is memory: counters are stored
 * there as they grow, so that a killed service loses none, without any write to a disk. A group of any kind has an
 * entry while it lives. Entries of services and slices of the system's manager last: they go on when the unit is
 * started again, and are copied to a file in the state directory, from which the first start of the next boot reads
 * them. Beyond TOTALS_LASTING_MAX the lasting entry that was used longest ago is dropped.
 *
 * Both files have the same format, and neither is trusted: invalid entries are left out.
 *
 * No clock: `now_s` is the time of day in seconds.
 */

#include <uthash.h>

#include "policy/policy.h"
#include "service/settings/accounting.h"

#define TOTALS_FILE        "totals"
#define TOTALS_MAX         4096U
#define TOTALS_LASTING_MAX 2048U
#define TOTALS_NAME_MAX    256U /* with the terminating zero; groups with longer names have no entry */
#define TOTALS_WHY_MAX     256U

#define TOTALS_IN_USE UINT64_MAX

typedef struct TotalsSlot {
        char name[TOTALS_NAME_MAX]; /* a unit's, if `lasts`; else the group's; "": free entry */
        uint64_t used_s;            /* TOTALS_IN_USE: by a present group */
        uint64_t run_ns, below_ns;  /* its own, and that of present and former groups below */
        uint64_t kept_ns, wait_ns, drain_wait_ns, service_wait_ns, n_preempted;
        uint32_t source; /* AccountSource */
        uint32_t lasts;
} TotalsSlot;

typedef struct TotalsEntry TotalsEntry;

typedef struct Totals {
        void *map;            /* NULL: no table */
        TotalsSlot *slots;    /* TOTALS_MAX */
        TotalsEntry *nodes;   /* TOTALS_MAX */
        TotalsEntry *by_name; /* uthash */
        TotalsEntry *free;    /* list */
        unsigned n_lasting;
} Totals;

#define TOTALS_NULL ((Totals){0})

/* Makes an empty table in `fd`, a file that no other process writes, or, with fd < 0, in memory of this process. */
int totals_new(int fd, Totals *ret);
void totals_done(Totals *t);

/* Takes over the table of an earlier service in the same file, so that no further memory is needed; drops invalid
 * entries. -EBADMSG: not a table. */
int totals_adopt(int fd, uint64_t now_s, Totals *ret);

/* Adds the entries of a file's bytes. Returns 0; > 0 when invalid entries were left out (see `why`); -EBADMSG when it
 * is no such file (see `why`). */
int totals_load(Totals *t, const void *data, size_t size, uint64_t now_s, char why[static TOTALS_WHY_MAX]);

/* Prints the lasting entries, as bytes for totals_load(). The caller frees *ret. */
int totals_print(const Totals *t, uint64_t now_s, char **ret, size_t *ret_size);

/* Finds or makes the entry `name`. NULL: no room, or the name is too long. */
TotalsSlot *totals_get(Totals *t, const char *name, bool lasts);

/* Called when the group is freed: frees the entry unless it lasts. */
void totals_leave(Totals *t, TotalsSlot *s, uint64_t now_s);

/* Called after a restart: frees entries that do not last and whose group did not come back, by `is_used`. */
void totals_gc(Totals *t, bool (*is_used)(const char *name, void *userdata), void *userdata);
