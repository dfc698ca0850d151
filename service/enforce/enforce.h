/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Enforce: carries out holds by means other than the page
 *
 * It observes the objects, and gives the ladder its privileged rung (Manager.privilege).
 */

#include "service/core/manager.h"

/* Attaches the room until the manager ends. Call it before the first client. */
int enforce_attach(Manager *m);
