/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Accounting: how run time is counted of an entity that is alone on a device
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

/* What holds for a group with `own` on a device with `device`. */
static inline Accounting accounting_combine(Accounting own, Accounting device) {
        return own == ACCOUNTING_AUTO ? device : own;
}

/* Whether an entity with `a` is counted no less exactly than with `b`, whatever its device has. */
static inline bool accounting_is_lower_or_equal(Accounting a, Accounting b) {
        return a == b || a == ACCOUNTING_EXACT;
}

/* How a number was made: the coarsest of the ways that have a part in it. */
typedef enum AccountSource {
        ACCOUNT_NONE, /* it was not */
        ACCOUNT_TRACKED,
        ACCOUNT_DRIVER,
        ACCOUNT_SAMPLED,
        _ACCOUNT_SOURCE_MAX,
} AccountSource;

const char *account_source_to_string(AccountSource v);
