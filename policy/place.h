/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Place: puts an entity into its tier, there into the queue of a branch or the list of idle ones, and into the list of
 * chosen ones
 */

#include "core.h"

/* Put the entity into its branch's queue, and take it out. */
void entity_join(PolicyEntity *e);
void entity_leave(PolicyEntity *e);

/* Makes its queue forget the entity's lag. */
void entity_forget_fair(PolicyEntity *e);

/* Put the entity into its tier's list of idle ones, and take it out. */
void entity_idle_begin(PolicyEntity *e);
void entity_idle_end(PolicyEntity *e);

/* The idle entity becomes ready: notes whether it is one of those that a tier grants in advance. */
void entity_note_advance(const PolicyEntity *e);

/* Count the entities of a tier. */
void tier_add(Tier *t);
void tier_subtract(Tier *t);

/* Append the entity to Policy.chosen, and remove it. */
void entity_choose(PolicyEntity *e);
void entity_unchoose(PolicyEntity *e);

/* Moves the entity to another branch, with its lag. Takes over the caller's reference to `to`. */
void entity_change_branch(PolicyEntity *e, Branch *to);
