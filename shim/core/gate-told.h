/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What the service is told by a word of the slot: how long the launches in flight take, and what is hooked
 *
 * Thread safety: from any thread.
 */

#include "shim/core/gate.h"

/* Stores the device time of all launches in flight, and since when the device works on it; 0: only the mean is known.
 * May be called from signal handlers. */
void gate_set_flying(Gate *g, uint64_t ns, uint64_t since_ns);

/* Moves the start of the launches in flight to `since_ns`; does nothing if they started later than that. */
void gate_started(Gate *g, uint64_t since_ns);

/* Sets PageSlot.hooked. May be called from signal handlers. */
void gate_set_hooked(Gate *g, uint32_t hooked);
