/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Client match: classes whose [Match] fits a client but not its group. They only lower the client
 */

#include "client.h"

/* Finds `advised` and `bound` anew. */
void client_match(Client *c);
