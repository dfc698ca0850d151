/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Tells the service what the manager of our user says about our units
 */

#include "control.h"

/* Writes an entry of a{sv}: what a user's manager says about our units; writes none for processes outside of its
 * units. */
void link_write_units(DbusWriter *w);
