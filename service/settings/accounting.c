/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Accounting: the names
 */

#include "accounting.h"

static const char *const accounting_table[_ACCOUNTING_MAX] = {
                [ACCOUNTING_AUTO] = "auto",
                [ACCOUNTING_OFF] = "off",
                [ACCOUNTING_SAMPLED] = "sampled",
                [ACCOUNTING_EXACT] = "exact",
};
DEFINE_STRING_TABLE_LOOKUP(accounting, Accounting);

static const char *const account_source_table[_ACCOUNT_SOURCE_MAX] = {
                [ACCOUNT_NONE] = "none",
                [ACCOUNT_TRACKED] = "tracked",
                [ACCOUNT_DRIVER] = "driver",
                [ACCOUNT_SAMPLED] = "sampled",
};
DEFINE_STRING_TABLE_TO_STRING(account_source, AccountSource);
