/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Charge: accounts time that has passed under the verdicts of the last dispatch, and charges the entities that had the
 * device; choose.c says which time is charged
 */

#include "core.h"

/* Accounts and charges the time up to `now_ns` under the verdicts of the last dispatch. */
void core_advance(Policy *p, uint64_t now_ns);
