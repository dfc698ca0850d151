/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * [Match] for one client: classes that its group does not have, and that lower it all the same
 */

#include "client.h"

/* Finds `advised` and `bound` anew. */
void client_match(Client *c);
