/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Resolves settings after a change, and applies them to clients, queues and entities
 */

#include "client.h"

/* Called after one of the group's layers changed. Resolves its settings, and those of its clients and queues. */
void group_settings_changed(Group *g);

/* Resolves only the group's own settings, while group_new() makes it. */
void group_resolve(Group *g);

/* Resolves a copy of a group (`*copy = *g`) whose `override`, `lowering` or `lowering_uid` was edited, as if the group
 * itself had been, with `stored` (NULL: nothing) as its stored settings. `copy->resolved` is the result. The copy owns
 * nothing, and must not be used for anything but its `resolved`. */
void group_resolve_copy(Group *copy, const Settings *stored);

/* The parts of group_settings_changed() before and after its clients' settings, which spread.h resolves in steps. */
void group_own_settings_changed(Group *g);
void group_settings_settled(Group *g);

/* Called after settings of the cgroup or unit `name` changed: resolves all groups below, which inherit them. */
void groups_below_changed(Manager *m, const char *name);

/* Whether `g` is below the cgroup or unit `name`. */
bool group_inherits_from(const Group *g, const char *name);

/* Resolves the client's settings and those of its queues. A client is an entity of its own when it has an override,
 * or when it asked for less than its group has. */
void client_settings_changed(Client *c);

/* Resolves the client's own settings only, while client_new() makes it. */
void client_resolve(Client *c);

/* The client's own part of client_settings_changed(): spread.h does its queues. */
void client_own_settings_changed(Client *c);

/* Resolves the queue's settings on top of its client's or group's, and moves it to the entity that they ask for. */
int queue_settings_changed(Queue *q);

/* Called when `boosted` changed: stacks the boost on `resolved`, without resolving again. */
void queue_boost_changed(Queue *q);
