/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Enforcement: what is done about holds outside of the page
 *
 * It hears from the observers what happens to the objects, and offers the ladder its rung of privilege.
 */

#include "service/core/manager.h"

/* From now on, to the manager's end. Before the first client. */
int enforce_attach(Manager *m);
