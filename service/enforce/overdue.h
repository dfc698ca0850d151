/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Overdue: a hold that has not taken effect, though its time is up
 *
 * A hold of the gate's level waits for what is in flight, which may be long; and a process may launch past the gate, by
 * a bug, by another way into the driver, or by will. Where the class of the group has Freeze=yes, its entities are
 * looked at while they are held: twice, so that a thread on its way to the gate is no reason. Whose queues were busy at
 * both looks, or have launched between them, FreezeAfter= after the verdict, is overdue until it is let go, and
 * freeze.h does the rest. A hold that has taken effect is looked at again only when its queues become ready.
 *
 * Everything that is looked at is the client's own word: who lies has the hold that he has.
 */

#include "service/core/client.h"

/* The entity begins to be held, is so still, or ends to be. Cheap when nothing changed, and where no class freezes. */
void overdue_set_held(Entity *e, bool held, uint64_t now);

/* A held entity has something in flight that it had not before. */
void overdue_ready_while_held(Entity *e);

/* The time to look at it has come: look_at is the next. */
void overdue_look(Entity *e, uint64_t now);

/* The class of the group, or what it says, has changed. */
void overdue_reconsider(Group *g);

bool group_is_overdue(const Group *g);
