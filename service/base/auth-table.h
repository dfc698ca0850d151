/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Authorisation where polkit is not asked
 */

#include "auth.h"

/* Decides by a fixed table, without polkit. Pure. */
bool auth_decide(AuthAction action, uid_t sender, uid_t owner, uid_t service);

const char *auth_action_to_string(AuthAction v);
