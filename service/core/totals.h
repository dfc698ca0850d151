/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Totals: counters of groups that outlive the service, and of units the boot
 *
 * A table of TOTALS_MAX entries, mapped from a file in the runtime directory, which is memory: what is counted is
 * stored there as it is counted, so that a service that is killed loses nothing of it, and nothing is ever written for
 * its sake. A group of any kind has an entry while it lives. Those of services and slices of the system's manager last:
 * they wait for the unit to come again, go on then, and are copied to a file in the state directory, from which the
 * first start of the next boot takes them. Of the entries that last the one that was used longest ago gives way when
 * there are TOTALS_LASTING_MAX.
 *
 * Both files have one format, and both are read as what anybody may have written: what makes no sense is left out.
 *
 * No clock: `now_s` is the time of day in seconds.
 */

#include <uthash.h>

#include "policy/policy.h"
#include "service/settings/accounting.h"

#define TOTALS_FILE        "totals"
#define TOTALS_MAX         4096U
#define TOTALS_LASTING_MAX 2048U
#define TOTALS_NAME_MAX    256U /* with the terminating zero; who has a longer name has no entry */
#define TOTALS_WHY_MAX     256U

#define TOTALS_IN_USE UINT64_MAX

typedef struct TotalsSlot {
        char name[TOTALS_NAME_MAX]; /* a unit's, where the entry lasts; else the group's; "": free */
        uint64_t used_s;            /* TOTALS_IN_USE: by a group that is there */
        uint64_t run_ns, below_ns;  /* its own, and of groups that are or were below it */
        uint64_t kept_ns, wait_ns, drain_wait_ns, service_wait_ns, n_preempted;
        uint32_t source; /* AccountSource */
        uint32_t lasts;
} TotalsSlot;

typedef struct TotalsEntry TotalsEntry;

typedef struct Totals {
        void *map;            /* NULL: there is no table */
        TotalsSlot *slots;    /* TOTALS_MAX */
        TotalsEntry *nodes;   /* TOTALS_MAX */
        TotalsEntry *by_name; /* uthash */
        TotalsEntry *free;    /* list */
        unsigned n_lasting;
} Totals;

#define TOTALS_NULL ((Totals){0})

/* An empty table in fd (a file that nobody else writes), or, with fd < 0, in memory of this process. */
int totals_new(int fd, Totals *ret);
void totals_done(Totals *t);

/* A table that an earlier service has left, with what of it makes sense, and in the same file: it needs no room that is
 * not its own already. -EBADMSG when it is no such table. */
int totals_adopt(int fd, uint64_t now_s, Totals *ret);

/* Adds what the bytes have. 0; > 0 when something of it makes no sense (`why`), and is left out; -EBADMSG when it is no
 * such file at all (`why`, too). */
int totals_load(Totals *t, const void *data, size_t size, uint64_t now_s, char why[static TOTALS_WHY_MAX]);

/* The entries that last, as bytes for totals_load(). */
int totals_print(const Totals *t, uint64_t now_s, char **ret, size_t *ret_size);

/* Finds or makes the entry of that name. NULL when there is no room, or the name is too long. */
TotalsSlot *totals_get(Totals *t, const char *name, bool lasts);

/* The group is gone: what does not last goes with it. */
void totals_leave(Totals *t, TotalsSlot *s, uint64_t now_s);

/* After a restart: entries that do not last and whose group has not come again go. `is_used` says which. */
void totals_gc(Totals *t, bool (*is_used)(const char *name, void *userdata), void *userdata);
