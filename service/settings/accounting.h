/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Accounting: how the run time of an entity that is alone on a device is counted
 *
 * While several entities want a device, all their launches are tracked. An entity that is alone need not be watched for
 * others. This setting says how its time is counted then (account.h).
 *
 * Pure.
 */

#include "common/macro.h"

typedef enum Accounting {
        ACCOUNTING_AUTO,    /* of a group: as its device; of a device: what the driver counts, else samples */
        ACCOUNTING_OFF,     /* not at all */
        ACCOUNTING_SAMPLED, /* watched now and then */
        ACCOUNTING_EXACT,   /* watched always */
        _ACCOUNTING_MAX,
} Accounting;

const char *accounting_to_string(Accounting v);
int accounting_from_string(const char *s);

/* Combines the setting of a group, `own`, with that of a device. */
static inline Accounting accounting_combine(Accounting own, Accounting device) {
        return own == ACCOUNTING_AUTO ? device : own;
}

/* Whether an entity with `a` is counted no less exactly than with `b`, whatever its device has. */
static inline bool accounting_is_lower_or_equal(Accounting a, Accounting b) {
        return a == b || a == ACCOUNTING_EXACT;
}

/* How a run time was counted. If it was counted in several ways, the least exact of them. */
typedef enum AccountSource {
        ACCOUNT_NONE, /* nothing was counted */
        ACCOUNT_TRACKED,
        ACCOUNT_DRIVER,
        ACCOUNT_SAMPLED,
        _ACCOUNT_SOURCE_MAX,
} AccountSource;

const char *account_source_to_string(AccountSource v);
