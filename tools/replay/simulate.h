/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Simulate: runs the load of a recording under another policy, or with other settings
 */

#include "replay.h"

/* Simulates the load. Returns 0, or a negative errno with the reason in `why`. */
int simulate(const Load *l, Otherwise *o, Outcome *ret, char *why, size_t size);
