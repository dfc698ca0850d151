/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Entity facts: whose an entity is and its settings, for policies; its name, for people
 */

#include "entity.h"

/* The party that owns the entity. */
PolicyParty entity_party(const Entity *e);

const char *entity_kind_to_string(EntityKind v);

/* The settings that the policy is told. Weight, utilisation and `nice` count within the group; the entity of the group
 * as a whole has the defaults there. */
PolicySettings entity_settings(const Entity *e);

/* The entity's name for display: the group's, "client 3" or "queue 7". Written to buf, which is returned. */
const char *entity_name(const Entity *e, char *buf, size_t size);
