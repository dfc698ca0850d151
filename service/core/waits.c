/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Waits
 */

#include <limits.h>
#include <stdio.h>
#include <utlist.h>

#include "client.h"
#include "gang.h"
#include "share.h"
#include "waits.h"

#define WHO_SIZE (PATH_MAX + 16U)

static const char *const wait_reason_table[_WAIT_REASON_MAX] = {
                [WAIT_SUSPENDED] = "suspended",
                [WAIT_STOPPED] = "stopped",
                [WAIT_MAX] = "max",
                [WAIT_PRIORITY] = "priority",
                [WAIT_SHARE] = "share",
                [WAIT_GANG] = "gang",
                [WAIT_EXPECTED] = "expected",
};
DEFINE_STRING_TABLE_LOOKUP(wait_reason, WaitReason);

typedef struct Wait {
        WaitReason reason;
        char by[WHO_SIZE];
        uint64_t since_ns, until_ns; /* 0: not known */
} Wait;

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

/* Whether it waits, and why. What the policy says of it is for the reasons of those that are ready, and held. */
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

static int append(sd_bus_message *reply, const char *device, const Wait *w) {
        uint64_t since = w->since_ns;

        return sd_bus_message_append(reply, "(sssttt)", device, wait_reason_to_string(w->reason), w->by,
                        since / NSEC_PER_USEC, w->until_ns / NSEC_PER_USEC,
                        since > 0 ? ns_sub(now_ns(), since) / NSEC_PER_USEC : 0);
}

static int append_entity(sd_bus_message *reply, const Entity *e) {
        Wait w;

        return explain_entity(e, &w) ? append(reply, e->device->id, &w) : 0;
}

/* A single queue that is suspended beside others that are not. */
static int append_suspended_queue(sd_bus_message *reply, const Queue *q) {
        Wait w = {.reason = WAIT_SUSPENDED};

        (void) suspended_by(q, w.by, sizeof(w.by));
        return append(reply, q->device->id, &w);
}

int waits_append_group(sd_bus_message *reply, Group *g) {
        const Entity *e;

        int r = sd_bus_message_open_container(reply, 'a', "(sssttt)");
        const Group *by = group_suspended_by(g);
        if (r >= 0 && !g->entities && by) {
                Wait w = {.reason = WAIT_SUSPENDED};

                (void) snprintf(w.by, sizeof(w.by), "%s", by->name);
                r = append(reply, "", &w);
        }
        DL_FOREACH2(g->entities, e, group_next)
                if (r >= 0)
                        r = append_entity(reply, e);
        return r < 0 ? r : sd_bus_message_close_container(reply);
}

/* One line for all queues that are in one entity. */
static bool is_first_of_entity(const Client *c, uint32_t slot) {
        for (uint32_t i = 0; i < slot; i++)
                if (c->slots[i].queue && c->slots[i].queue->entity == c->slots[slot].queue->entity)
                        return false;
        return true;
}

/* Who has many queues has few entities: what is looked at stays small. */
#define CLIENT_QUEUES_MAX 64U

int waits_append_client(sd_bus_message *reply, Client *c) {
        int r = sd_bus_message_open_container(reply, 'a', "(sssttt)");

        for (uint32_t i = 0; r >= 0 && i < MIN(c->n_slots, CLIENT_QUEUES_MAX); i++)
                if (c->slots[i].queue && c->slots[i].queue->entity && is_first_of_entity(c, i))
                        r = append_entity(reply, c->slots[i].queue->entity);
        return r < 0 ? r : sd_bus_message_close_container(reply);
}

int waits_append_queue(sd_bus_message *reply, Queue *q) {
        int r = sd_bus_message_open_container(reply, 'a', "(sssttt)");

        if (r >= 0 && queue_is_suspended(q))
                r = append_suspended_queue(reply, q);
        else if (r >= 0 && q->entity)
                r = append_entity(reply, q->entity);
        return r < 0 ? r : sd_bus_message_close_container(reply);
}
