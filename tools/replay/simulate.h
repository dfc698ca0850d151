/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The load of a recording under another policy, or with other settings
 */

#include "replay.h"

/* The load under it. 0 or a negative errno, with why. */
int simulate(const Load *l, Otherwise *o, Outcome *ret, char *why, size_t size);
