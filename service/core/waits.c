/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Waits
 */

#include <stdio.h>
#include <utlist.h>

#include "client.h"
#include "entity-facts.h"
#include "gang.h"
#include "share.h"
#include "suspended.h"
#include "waits.h"

static const char *const wait_reason_table[_WAIT_REASON_MAX] = {
                [WAIT_SUSPENDED] = "suspended",
                [WAIT_STOPPED] = "stopped",
                [WAIT_MAX] = "max",
                [WAIT_PRIORITY] = "priority",
                [WAIT_SHARE] = "share",
                [WAIT_GANG] = "gang",
                [WAIT_EXPECTED] = "expected",
};
DEFINE_STRING_TABLE_TO_STRING(wait_reason, WaitReason);

static const char *suspended_by(const Queue *q, char *buf, size_t size) {
        const Group *by = client_suspended_by(q->client);

        if (q->suspended)
                (void) snprintf(buf, size, "queue:%" PRIu64, q->id);
        else if (q->client->suspended)
                (void) snprintf(buf, size, "client:%" PRIu64, q->client->id);
        else
                (void) snprintf(buf, size, "%s", by ? by->name : "");
        return buf;
}

static const Group *group_of_node(const Device *d, const PolicyNode *n) {
        const Share *s;

        DL_FOREACH2(d->shares, s, device_next)
                if (s->own && s->node == n)
                        return s->group;
        return NULL;
}

static WaitReason reason_of_hold(const Entity *e, const PolicyWait *policy) {
        const Entity *runner = policy->runner;

        if (policy->stopped_by)
                return WAIT_MAX;
        if (e->gang == GANG_HOLD)
                return WAIT_GANG;
        if (!runner)
                return WAIT_EXPECTED;
        return runner->settings.priority > e->settings.priority ? WAIT_PRIORITY : WAIT_SHARE;
}

/* Returns whether the entity waits, and why. *ret_policy is set for entities that are ready and held. */
static bool find_reason(const Entity *e, WaitReason *ret, PolicyWait *ret_policy) {
        *ret_policy = (PolicyWait){0};
        if (e->queues && e->n_active == 0) {
                *ret = WAIT_SUSPENDED;
                return true;
        }
        if (e->policy && e->told_ready && gang_entity_verdict(e) == VERDICT_HOLD) {
                if (!e->device->ops->entity_wait(e->policy, ret_policy))
                        *ret_policy = (PolicyWait){.since_ns = e->gang_since};
                *ret = reason_of_hold(e, ret_policy);
                return true;
        }
        if (!e->told_ready && e->n_stopped > 0) {
                *ret = WAIT_STOPPED;
                return true;
        }
        return false;
}

const char *waits_entity(const Entity *e, uint64_t *ret_since_ns) {
        PolicyWait policy;
        WaitReason reason;

        if (!find_reason(e, &reason, &policy))
                return NULL;
        *ret_since_ns = policy.since_ns;
        return wait_reason_to_string(reason);
}

static bool explain_entity(const Entity *e, Wait *ret) {
        const Group *limited;
        PolicyWait policy;
        WaitReason reason;

        if (!find_reason(e, &reason, &policy))
                return false;
        *ret = (Wait){.reason = reason, .since_ns = policy.since_ns};
        switch (reason) {
        case WAIT_SUSPENDED:
                (void) suspended_by(e->queues, ret->by, sizeof(ret->by));
                break;
        case WAIT_MAX:
                limited = group_of_node(e->device, policy.stopped_by);
                ret->until_ns = policy.until_ns;
                (void) snprintf(ret->by, sizeof(ret->by), "%s", limited ? limited->name : "");
                break;
        case WAIT_GANG:
                (void) snprintf(ret->by, sizeof(ret->by), "%s", e->group->name);
                break;
        case WAIT_PRIORITY:
        case WAIT_SHARE:
                (void) entity_name(policy.runner, ret->by, sizeof(ret->by));
                break;
        default:
                break;
        }
        return true;
}

static int tell_entity(const Entity *e, wait_each_t each, void *userdata) {
        Wait w;

        return explain_entity(e, &w) ? each(e->device->id, &w, userdata) : 0;
}

int waits_of_group(Group *g, wait_each_t each, void *userdata) {
        const Group *by = group_suspended_by(g);
        const Entity *e;
        int r = 0;

        if (!g->entities && by) {
                Wait w = {.reason = WAIT_SUSPENDED};

                (void) snprintf(w.by, sizeof(w.by), "%s", by->name);
                r = each("", &w, userdata);
        }
        DL_FOREACH2(g->entities, e, group_next)
                if (r >= 0)
                        r = tell_entity(e, each, userdata);
        return r;
}

/* Whether the queue is the first of its entity in the client's page: an entity has one wait, however many queues it
 * has. */
static bool is_first_of_entity(const Client *c, uint32_t slot) {
        for (uint32_t i = 0; i < slot; i++)
                if (c->slots[i].queue && c->slots[i].queue->entity == c->slots[slot].queue->entity)
                        return false;
        return true;
}

/* Number of queues of a client that are looked at. A client with more queues mostly has few entities. */
#define CLIENT_QUEUES_MAX 64U

int waits_of_client(Client *c, wait_each_t each, void *userdata) {
        int r = 0;

        for (uint32_t i = 0; r >= 0 && i < MIN(c->n_slots, CLIENT_QUEUES_MAX); i++)
                if (c->slots[i].queue && c->slots[i].queue->entity && is_first_of_entity(c, i))
                        r = tell_entity(c->slots[i].queue->entity, each, userdata);
        return r;
}

int waits_of_queue(Queue *q, wait_each_t each, void *userdata) {
        if (queue_is_suspended(q)) { /* the queue may be suspended while others of its entity are not */
                Wait w = {.reason = WAIT_SUSPENDED};

                (void) suspended_by(q, w.by, sizeof(w.by));
                return each(q->device->id, &w, userdata);
        }
        return q->entity ? tell_entity(q->entity, each, userdata) : 0;
}
