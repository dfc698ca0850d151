/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The layers of settings of an origin, a group, a client and a queue
 */

#include "client.h"

/* The layers of the origin, `match` (may be NULL), and the layers of the origins above it, strongest first.
 * `inherited`: for a process outside of the cgroup that is given its settings. */
#define ORIGIN_LAYERS     5U /* of each: override of a parent, its job, attributes, file, property */
#define ORIGIN_DEPTH      8U /* only the nearest eight origins with settings count */
#define ORIGIN_LAYERS_MAX (ORIGIN_LAYERS * ORIGIN_DEPTH + 1)
size_t origin_layers(const Origin *o, bool inherited, const SettingsLayer *match,
                SettingsLayer layers[static ORIGIN_LAYERS_MAX]);

/* Layers that are applied last and only lower: settings of users other than root who own the origin or one above it, by
 * attributes, by units of their managers, by jobs and over the bus (the last two without those of the origin's own
 * group, unless `inherited`). `o` may be NULL. */
#define ORIGIN_LOWERING_MAX (4U * ORIGIN_DEPTH)
size_t origin_lowering_layers(const Origin *o, bool inherited, SettingsLayer layers[static ORIGIN_LOWERING_MAX]);

/* Whether the origin is the cgroup or unit `name`. */
bool origin_is(const Origin *o, const char *name);

/* Whether an origin above it is the cgroup or unit `name`. */
bool origin_inherits_from(const Origin *o, const char *name);

/* Whether it is a slice. The default class and classes by [Match] are for processes, not for a slice as a whole.
 * Processes in jobs count as in their cgroup: else a user could shed its limits by putting everything into jobs. */
bool group_is_inner(const Group *g);

/* The group's layers of settings, strongest first. Returns their number. */
#define GROUP_LAYERS_MAX (3U + ORIGIN_LAYERS_MAX) /* override, job, origin, default */
size_t group_layers(const Group *g, SettingsLayer layers[static GROUP_LAYERS_MAX]);

/* Layers that are applied last and only lower: by owners of cgroups, by jobs, and by the group's owner. */
#define GROUP_LOWERING_MAX (ORIGIN_LOWERING_MAX + 2U)
size_t group_lowering_layers(const Group *g, SettingsLayer layers[static GROUP_LOWERING_MAX]);
void group_lower(const Group *g, SettingsResolved *r);

/* The name under which its settings are stored; NULL for a job's group, whose settings are not stored. */
const char *group_stored_name(const Group *g);

/* The client's layers of settings, strongest first: its own, then its group's. Return their number. */
#define CLIENT_OWN_LAYERS 2U /* override, hold */
#define CLIENT_LAYERS_MAX (CLIENT_OWN_LAYERS + GROUP_LAYERS_MAX)
size_t client_own_layers(const Client *c, SettingsLayer layers[static CLIENT_OWN_LAYERS]);
size_t client_layers(const Client *c, SettingsLayer layers[static CLIENT_LAYERS_MAX]);

/* Layers that are applied last and only lower: first those of its group, then its own: a hold, the class that fits by
 * facts it can forge (`advised`), its wish, its owner's. */
#define CLIENT_OWN_LOWERING 5U
#define CLIENT_LOWERING_MAX (GROUP_LOWERING_MAX + CLIENT_OWN_LOWERING)
size_t client_own_lowering_layers(const Client *c, SettingsLayer layers[static CLIENT_OWN_LOWERING]);
size_t client_lowering_layers(const Client *c, SettingsLayer layers[static CLIENT_LOWERING_MAX]);

/* The queue's layers of settings, strongest first: its override, then its client's layers. */
#define QUEUE_LAYERS_MAX (1U + CLIENT_LAYERS_MAX)
size_t queue_layers(const Queue *q, SettingsLayer layers[static QUEUE_LAYERS_MAX]);

/* Its layers that are applied after those of its client, and only lower: the priority that it was made with (*ret_made:
 * so much below `priority`, which it has without), its hints, its owner's. */
#define QUEUE_OWN_LOWERING 3U
#define QUEUE_LOWERING_MAX (CLIENT_LOWERING_MAX + QUEUE_OWN_LOWERING)
size_t queue_own_lowering_layers(
                const Queue *q, int priority, Settings *ret_made, SettingsLayer layers[static QUEUE_OWN_LOWERING]);
