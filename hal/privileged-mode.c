/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The names of the ways to hold a process from outside
 */

#include "hal/privileged-mode.h"

#include "common/macro.h"

static const char *const privileged_mode_table[_PRIVILEGED_MODE_MAX] = {
                [PRIVILEGED_NO] = "no",
                [PRIVILEGED_CRIU] = "criu",
                [PRIVILEGED_DEBUG] = "debug",
                [PRIVILEGED_CHANNELS] = "channels",
};
DEFINE_STRING_TABLE_LOOKUP(privileged_mode, PrivilegedMode);
