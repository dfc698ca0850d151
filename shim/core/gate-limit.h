/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * How many launches a gate lets be in flight
 */

#include "gate.h"

/* Returns the maximum number of launches in flight; 0: unlimited. */
uint32_t gate_limit(const Gate *g);

/* As gate_limit(), for launches that take `each_ns`; 0: unknown. */
uint32_t gate_limit_for(const Gate *g, uint64_t each_ns);

/* Returns how many nanoseconds before the expected end of its oldest launch a queue at its limit may submit the
 * next. */
uint64_t gate_lead(const Gate *g);
