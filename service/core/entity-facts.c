/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Entity facts: whose an entity is, its settings and its name
 */

#include <inttypes.h>
#include <stdio.h>

#include "client.h"
#include "entity-facts.h"
#include "party.h"
#include "service/base/seats.h"
#include "user.h"

static const char *const entity_kind_table[_ENTITY_KIND_MAX] = {
                [ENTITY_GROUP] = "group",
                [ENTITY_CLIENT] = "client",
                [ENTITY_QUEUE] = "queue",
};
DEFINE_STRING_TABLE_TO_STRING(entity_kind, EntityKind);

static const char *group_cgroup(const Group *g) {
        return g->origin ? g->origin->path : g->name;
}

PolicyParty entity_party(const Entity *e) {
        const Group *g = e->group;

        return party_make(group_cgroup(g), g->owner, e->client ? e->client->user->uid : g->owner);
}

static uint32_t in_relation(uint32_t own, uint32_t group, uint32_t usual) {
        uint64_t v = (uint64_t) own * usual / group;

        return (uint32_t) CLAMP(v, (uint64_t) POLICY_WEIGHT_MIN, (uint64_t) POLICY_WEIGHT_MAX);
}

PolicySettings entity_settings(const Entity *e) {
        const PolicySettings *g = &e->group->resolved.policy;
        PolicySettings s = e->settings;

        s.weight = in_relation(s.weight, g->weight, POLICY_WEIGHT_DEFAULT);
        s.utilization = in_relation(s.utilization, g->utilization, POLICY_UTILIZATION_MAX);
        s.nice = s.priority - g->priority;
        s.party = entity_party(e);
        s.cpu_priority = e->cpu_priority;
        s.active = s.active || seats_is_active(e->group->manager->seats, group_cgroup(e->group));
        return s;
}

const char *entity_name(const Entity *e, char *buf, size_t size) {
        if (e->kind == ENTITY_CLIENT && e->client)
                (void) snprintf(buf, size, "client %" PRIu64, e->client->id);
        else if (e->kind == ENTITY_QUEUE && e->queues)
                (void) snprintf(buf, size, "queue %" PRIu64, e->queues->id);
        else
                (void) snprintf(buf, size, "%s", e->group->name);
        return buf;
}
