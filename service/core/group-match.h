/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Group match: whose a group is, and the class whose [Match] fits it
 */

#include "group.h"

/* group_match() updates `match`, and has to be called for groups above before. group_note_lowering() updates
 * `lowering_counts`. Both return whether that changed. */
bool group_match(Group *g);
bool group_note_lowering(Group *g);

/* The uid that all clients of a group have, or UID_NONE. */
uid_t group_owner(const Group *g);

/* The uid that all clients of the group and of groups below have: that user may lower the group. Else UID_NONE. */
uid_t group_tree_owner(const Group *g);
