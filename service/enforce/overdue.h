/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Overdue: holds that have not taken effect within FreezeAfter=
 *
 * A hold at the gate waits for launches in flight, which may be long; and a process may launch past the gate, by a bug,
 * by another way into the driver, or on purpose. If the group's class has Freeze=yes, its entities are looked at twice
 * while they are held, so that a thread on its way to the gate does not count. An entity whose queues were busy at both
 * looks, or have launched between them, FreezeAfter= after the verdict, is overdue until it may run, and freeze.h
 * freezes its unit. An entity whose hold has taken effect is looked at again only when its queues become ready.
 *
 * All counters looked at are the client's own: a client that lies only escapes freezing.
 */

#include "service/core/client.h"

/* Called when the entity begins to be held, is still held, or is released. Cheap when nothing changed, and where no
 * class freezes. Returns whether the entity became overdue, or ceased to be; then freeze_group_changed() is due. */
bool overdue_set_held(Entity *e, bool held, uint64_t now);

/* Called when a held entity has launches in flight that it did not have before. */
void overdue_ready_while_held(Entity *e);

/* Called at overdue.look_at; sets the next one. Returns as overdue_set_held() does. */
bool overdue_look(Entity *e, uint64_t now);

/* Called when the group's class, or the class's settings, changed; freeze_group_changed() is due in any case. */
void overdue_reconsider(Group *g);

bool group_is_overdue(const Group *g);
