/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Turn: the turn of a minimum. One node at a time has a place of its own, see "guarantee" in choose.c. While it waits
 * for tails, its time does not pass (drain.h).
 */

#include "core.h"

/* Called before choosing, while a node has a turn: continues it with the node's highest branch, or ends it. */
void core_continue_turn(Policy *p);

/* Called after choosing: begins a turn if one is due. Returns whether to choose again. */
bool core_begin_turn(Policy *p);

/* Ends the turn, if there is one. */
void core_end_turn(Policy *p);
