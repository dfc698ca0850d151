/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Tap: a listener to every call and decision of one policy instance
 *
 * An instance's decisions depend only on its calls and their times: the same calls of another instance of the same
 * policy give the same grants in the same order, the same times of the next dispatch, and the same usage. So a tap that
 * listens from the beginning of an instance hears all that a replay needs (tape/player.h).
 *
 * Without a tap the cost is one test of a pointer per call, and per changed grant.
 *
 * A call is told after it succeeded. Failed calls, and calls that only read (usage, wait, level), are not told.
 */

#include "policy.h"

typedef enum PolicyEventKind {
        POLICY_EVENT_CONFIGURED,
        POLICY_EVENT_NODE_NEW,
        POLICY_EVENT_NODE_CONFIGURED,
        POLICY_EVENT_NODE_FREED,
        POLICY_EVENT_ENTITY_NEW,
        POLICY_EVENT_ENTITY_CONFIGURED,
        POLICY_EVENT_ENTITY_MOVED,
        POLICY_EVENT_ENTITY_FREED,
        POLICY_EVENT_READY,
        POLICY_EVENT_IDLE,
        POLICY_EVENT_DRAINED,
        POLICY_EVENT_TAIL,
        POLICY_EVENT_TAIL_HAD,
        POLICY_EVENT_OUTSIDE,
        POLICY_EVENT_GRANT, /* of the dispatch that is told next */
        POLICY_EVENT_DISPATCHED,
        _POLICY_EVENT_MAX,
} PolicyEventKind;

/* All pointers are valid during the call only. */
typedef struct PolicyEvent {
        PolicyEventKind kind;
        uint64_t at_ns; /* the time that the call came with; of a grant: of its dispatch */
        uint64_t entity,
                        node; /* their numbers in this instance, which another never has at the same time; node 0 is the
                                  root. Of NODE_NEW `node` is the new one, of ENTITY_NEW and ENTITY_MOVED where it is */
        uint64_t parent;      /* of NODE_NEW */
        void *owner;          /* of ENTITY_NEW */
        const PolicyConfig *config;              /* of CONFIGURED */
        const PolicyNodeSettings *node_settings; /* of NODE_NEW, NODE_CONFIGURED; as they were given */
        const PolicySettings *settings;          /* of ENTITY_NEW, ENTITY_CONFIGURED; as they are taken */
        int level;                               /* of OUTSIDE */
        uint64_t had_ns;                         /* of TAIL_HAD */
        PolicyGrant grant;                       /* of GRANT */
        uint64_t wake_ns;                        /* of DISPATCHED: when it wants to be called again */
        PolicyUsage usage;                       /* of ENTITY_FREED: its whole usage */
} PolicyEvent;

typedef struct PolicyTap {
        void (*event)(const PolicyEvent *e, void *userdata); /* must not call the policy */
        void *userdata;
} PolicyTap;

/* Attaches `tap`, which has to live as long as the policy; NULL: detaches. Only a tap that hears all calls from the
 * first on allows a replay. */
void policy_tap(Policy *p, const PolicyTap *tap);

/* The entity's id in events. */
uint64_t policy_entity_id(const PolicyEntity *e);

/* --- for the core --- */

void tap_event(const Policy *p, const PolicyEvent *e);
void tap_grant(const Policy *p, uint64_t entity, const PolicyGrant *grant);
