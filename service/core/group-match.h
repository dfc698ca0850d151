/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Groups: whose they are, and what [Match] says of that
 */

#include "group.h"

/* Updates `match`, after that of the groups above; and `lowering_counts`. Return whether it changed. */
bool group_match(Group *g);
bool group_note_lowering(Group *g);

/* The uid that all clients of a group have, or UID_NONE. */
uid_t group_owner(const Group *g);

/* The uid that all clients of the group and of groups below have: that user may lower the group. Else UID_NONE. */
uid_t group_tree_owner(const Group *g);
