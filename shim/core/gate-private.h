/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A gate without a slot in a page: launches on its private slot
 *
 * Where the control thread could not be started, no gate gets a slot, and launches try again to start it. They do not
 * take the short way then: the private slot keeps another bit than UNTRACKED, which a launch looks for.
 *
 * Thread safety: as of gate_begin(). gate_set_start() and gate_look_again(): for who starts the control thread.
 */

#include "shim/core/gate.h"

/* Sets the function that starts the control thread, where it could not be started; NULL: there is one. While it is set,
 * every launch without a page goes through gate_begin_slow(). gate_look_again() has the gate's next launch do so, too,
 * where launches have passed it before. */
void gate_set_start(void (*start)(void));
void gate_look_again(Gate *g);

/* Calls that function. Returns whether there is one. */
bool gate_start(void);

/* Makes a launch without a page. Returns false when there is a page now. */
bool gate_begin_private(Gate *g);
