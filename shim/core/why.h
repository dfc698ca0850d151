/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Why this process runs unscheduled, for who looks at it from outside
 *
 * What a bus or the service answered is known in here only. It becomes the name of a page that is mapped and cannot be
 * touched: it stands in /proc/PID/maps, which the user himself and root may read, as long as it is so, and costs
 * neither a descriptor nor a call of anybody's. A child does not inherit it.
 */

#include "common/why-name.h"

/* Both by the control thread only. */
void why_set(const char *what, const char *detail);
void why_clear(void);
