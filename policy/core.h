/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Core: objects that all files of the core share, for every ordering (order.h). choose.c makes the decisions, and says
 * why they are right; node.h says what a node is; core.c has the events; charge.h charges time that has passed; place.h
 * says in which queue an entity is; ordering.h applies what an ordering says.
 */

#include "fair.h"
#include "gaps.h"
#include "guarantee.h"
#include "order.h"
#include "patience.h"
#include "policy.h"
#include "quota.h"
#include "tapped.h"

#define CORE_TIERS     ((size_t) (POLICY_PRIORITY_MAX - POLICY_PRIORITY_MIN + 1))
#define CORE_WORD_BITS 64U

/* Equals that contended within this time are expected to contend again, so their thresholds stay. */
#define CORE_RECENT_NS (100 * NSEC_PER_MSEC)

typedef struct Branch Branch;
typedef struct Floor Floor;
typedef struct Party Party;
typedef struct Tier Tier;

/* A node's part in one tier. */
struct Branch {
        PolicyNode *node;
        Tier *tier;
        Branch *parent;      /* branch of the parent node, in the same tier; NULL: the root's */
        bool apart;          /* not in the parent's queue: it has a turn of its own */
        uint32_t counted;    /* its part of PolicyNode.places */
        FairQueue fair;      /* entities and branches below that could run */
        FairNode self;       /* in the parent's queue, while an entity below could run */
        size_t n_refs;       /* entities and branches below; 0: it is dormant (debt.h) */
        size_t n_dormant;    /* dormant branches below */
        Branch *prev, *next; /* in PolicyNode.branches, the highest tier first */
};

struct PolicyNode {
        Policy *policy;
        PolicyNode *parent; /* NULL: the root */
        uint32_t places;    /* entities below that could run if no node above stopped them */
        uint32_t n_chosen;  /* entities below that were chosen by the last dispatch */
        bool stopped, refilling, listed_due;
        unsigned depth;
        Guarantee guarantee;
        Quota quota;

        uint64_t id; /* order among equals */
        PolicyNodeSettings settings;
        Branch *branches;
        size_t n_below;       /* nodes, freed ones that are kept included, and entities */
        AvlNode refill_order; /* in Policy.refills: stopped, and an entity below waits for the end of the period */
        uint64_t refill_ns;
        PolicyNode *guarantee_prev, *guarantee_next; /* in Policy.guarantees: it has a minimum */
        AvlNode due_order;                           /* in Policy.due: wanting, and no entity below is chosen */
        uint64_t due_ns;

        Floor *floors; /* of the parties below, by node_prev/node_next */

        char *name; /* debt.h; NULL: a new node does not find its debts */
        bool gone;  /* freed by the caller, kept for its debts */
        AvlNode gone_order;
        PolicyNode *gone_prev, *gone_next;
};

/* Identifies a node's floor, or, where there is no node, a party's. */
typedef struct FloorKey {
        uint64_t node, user;
} FloorKey;

/* Turns of the starvation floor: floor.h. */
struct Floor {
        FloorKey key;
        PolicyNode *node; /* NULL: a party's */
        Floor *parent;    /* NULL: the root */
        size_t n_refs;    /* entities and floors below */
        Floor *node_prev, *node_next;

        AvlNode known_order; /* in the parent's `known` */
        Avl known;           /* floors right below, by key */

        uint64_t turn;       /* lower: its last turn is longer ago */
        uint64_t since_ns;   /* since when the longest held entity below is held; NSEC_INFINITY: none, or stopped */
        uint64_t longest_ns; /* the earliest `since_ns` of its subtree in `order` */
        AvlNode order;       /* in the parent's `waiting`, while an entity below is held */
        Avl waiting;         /* floors right below, by `turn` */
        PolicyEntity *held;  /* of a leaf: list, the longest held first */
};

struct Tier {
        Branch root;
        bool ranked;        /* its queues are of rank.h */
        PolicyEntity *idle; /* list, the most recently ready (or new) first */
        size_t n_entities;
        unsigned n_missed; /* entities that became ready since one of the POLICY_ADVANCE_MAX most recent idle ones did
                            */
        uint64_t contended_until_ns;
        uint64_t crowded_until_ns; /* standing.h */
};

/* Tiers by number, 0 the lowest priority. */
typedef struct TierSet {
        uint64_t filled; /* which words are not 0 */
        uint64_t words[(CORE_TIERS + CORE_WORD_BITS - 1) / CORE_WORD_BITS];
} TierSet;

/* What each event reads comes first, and is in few lines of a cache. */
struct PolicyEntity {
        Policy *policy;
        PolicyNode *node;
        Branch *branch;
        bool ready;
        bool chosen;           /* by the last dispatch, and still ready */
        bool awaits_tail;      /* chosen, and held until an equal's tail has ended: drain.h */
        bool advanced;         /* idle, and in Policy.advanced */
        bool stands;           /* idle, and in Policy.standing */
        bool kept;             /* idle, and keeps its place: keep.h */
        bool behind;           /* was owed more than a slice, and is still owed time */
        bool draining;         /* its launches from before it was held or stopped may run on: drain.h */
        bool by_floor;         /* granted by a turn of the floor */
        bool by_turn;          /* granted by the turn of a minimum */
        bool blocked;          /* marked by core_block() */
        bool held;             /* ready with VERDICT_HOLD, and on Floor.held */
        PolicyGrant grant;     /* last reported */
        uint64_t accounted_ns; /* `usage` is complete up to here */

        PolicyUsage usage;
        uint64_t idle_since_ns; /* NSEC_INFINITY until it has been ready once */
        uint64_t trust_ns;      /* policy_latest() */
        Patience patience;
        PolicyEntity *idle_prev, *idle_next;
        PolicyEntity *granted_prev, *granted_next;
        PolicyEntity *chosen_prev, *chosen_next;
        uint64_t grant_seq; /* order in Policy.granted */
        uint64_t left_ns;   /* of its budget */
        FairNode fair;
        uint64_t alarm_ns; /* NSEC_INFINITY: no alarm */
        OrderEntity order;
        Gaps gaps;

        uint64_t id; /* ascending by age */
        void *owner;
        PolicySettings settings;
        Floor *floor;
        Party *party;        /* NULL: the ordering keeps no parties */
        AvlNode alarm_order; /* in Policy.alarms */
        uint64_t alarm_seq;
        uint64_t kept_until_ns;
        PolicyEntity *kept_prev, *kept_next;
        uint64_t drain_until_ns;
        PolicyEntity *draining_prev, *draining_next;
        uint64_t held_since_ns;
        PolicyEntity *held_prev, *held_next;
};

struct Policy {
        const OrderOps *ordering;
        Order order;
        uint64_t rank_seq; /* order among entities of one rank */
        Avl alarms;
        uint64_t alarm_seq;
        Avl parties;         /* parties.h */
        Party *gone_parties; /* list, the longest gone first */
        size_t n_gone_parties;
        int outside_level; /* highest level on other devices: PolicyOps.outside() */

        PolicyConfig config;
        PolicyCallbacks callbacks;
        const PolicyTap *tap; /* tap.h; NULL: no tap */
        uint64_t now_ns;
        uint64_t wake_ns;        /* when dispatch() asked to be called */
        uint64_t latest_ns;      /* policy_latest() */
        PolicyDeviceUsage usage; /* up to now_ns */

        PolicyNode root;
        Tier *tiers; /* array of CORE_TIERS; unused ones have no memory, by pages */
        TierSet registered, with_places;
        size_t n_entities, n_ready;
        PolicyNode *guarantees; /* list: nodes with a minimum */
        size_t n_limited;       /* nodes with a maximum */
        uint64_t node_seq, entity_seq, grant_seq;

        Tier *active; /* the tier whose runners are chosen, on `slots` places */
        uint32_t slots;
        struct {
                const Tier *tier; /* the active one, or the last */
                bool contends;    /* more of its entities could run than there are places */
                uint64_t ns;      /* for so long, less a part of all time */
                uint64_t at_ns;   /* up to then */
        } crowd;                  /* standing.h */
        PolicyEntity *chosen;     /* list, in the order of the trees */
        PolicyEntity *granted;    /* list, the latest first: last reported with VERDICT_RUN, and not standing */
        PolicyEntity *standing;   /* list, by granted_prev/granted_next, the latest first: standing.h */
        size_t n_standing;
        PolicyEntity *advanced[POLICY_ADVANCE_MAX];
        size_t n_advanced;
        PolicyEntity *last; /* the entity that ran last, if it is idle */

        PolicyEntity *draining; /* list, the longest held first */
        size_t n_draining;
        unsigned n_awaiting; /* chosen entities with `awaits_tail` */
        PolicyEntity *kept;

        Avl due;                /* nodes that may be owed their minimum, the first due first */
        PolicyNode *guaranteed; /* the node that has a turn of its minimum now */
        Branch *turn;           /* the branch that runs in it */
        uint64_t turn_until_ns;

        PolicyNode *gone; /* list, the longest gone first */
        PolicyNode *gone_next;
        Avl gone_names; /* freed nodes with a name, by parent and name */
        size_t n_gone, n_dormant;

        Avl refills; /* stopped nodes that an entity waits for, the next refill first */

        Floor floor; /* the root of all floors */
        uint64_t floor_turn;
        PolicyEntity *owed; /* the entity that has a turn of the floor now */
        uint64_t owed_until_ns;
        uint64_t owed_next_ns; /* no other turn of the floor before that */

        PolicyEntity *linger; /* the entity that became idle, and may be back before linger_until_ns */
        uint64_t linger_until_ns;
        bool lingering; /* the device is kept for `linger` */
};

static inline Tier *core_tier(Policy *p, int priority) {
        return p->tiers + (CLAMP(priority, POLICY_PRIORITY_MIN, POLICY_PRIORITY_MAX) - POLICY_PRIORITY_MIN);
}

/* Called when the entity that the device may be kept for is back, or is waited for no longer. */
static inline void core_linger_end(Policy *p, bool back) {
        PolicyEntity *e = p->linger;

        e->trust_ns = back && p->now_ns < p->linger_until_ns ? ns_add(e->trust_ns, p->now_ns - e->idle_since_ns) : 0;
        p->linger = NULL;
}

/* Whether nodes count the time of those below them. */
static inline bool core_charges_nodes(const Policy *p) {
        return p->n_limited > 0 || p->guarantees;
}

/* --- the functions of every policy's PolicyOps --- */

int core_new(const OrderOps *ops, const PolicyConfig *config, const PolicyCallbacks *callbacks, Policy **ret);
Policy *core_free(Policy *p);
int core_configure(Policy *p, const PolicyConfig *config, uint64_t now_ns);
int core_node_new(Policy *p, PolicyNode *parent, const PolicyNodeSettings *s, uint64_t now_ns, PolicyNode **ret);
PolicyNode *core_node_free(PolicyNode *n, uint64_t now_ns);
void core_node_configure(PolicyNode *n, const PolicyNodeSettings *s, uint64_t now_ns);
int core_entity_new(
                Policy *p, PolicyNode *node, void *owner, const PolicySettings *s, uint64_t now_ns, PolicyEntity **ret);
PolicyEntity *core_entity_free(PolicyEntity *e, uint64_t now_ns);
void core_entity_configure(PolicyEntity *e, const PolicySettings *s, uint64_t now_ns);
int core_entity_move(PolicyEntity *e, PolicyNode *to, uint64_t now_ns);
void core_entity_ready(PolicyEntity *e, uint64_t now_ns);
void core_entity_idle(PolicyEntity *e, uint64_t now_ns);
void core_entity_drained(PolicyEntity *e, uint64_t now_ns);
void core_entity_tail(PolicyEntity *e, uint64_t now_ns);
void core_entity_tail_had(PolicyEntity *e, uint64_t ns, uint64_t now_ns);
void core_entity_usage(const PolicyEntity *e, uint64_t now_ns, PolicyUsage *ret);
bool core_entity_wait(const PolicyEntity *e, PolicyWait *ret);
void core_device_usage(const Policy *p, uint64_t now_ns, PolicyDeviceUsage *ret);
int core_level(const Policy *p);
void core_outside(Policy *p, int level, uint64_t now_ns);

#define DEFINE_POLICY(name_, description_, ...)                                                                        \
        static const OrderOps name_##_order = {__VA_ARGS__};                                                           \
        static int name_##_new(const PolicyConfig *config, const PolicyCallbacks *callbacks, Policy **ret) {           \
                return core_new(&name_##_order, config, callbacks, ret);                                               \
        }                                                                                                              \
        const PolicyOps policy_##name_##_ops = {                                                                       \
                        .ordering = &name_##_order,                                                                    \
                        .name = #name_,                                                                                \
                        .description = description_,                                                                   \
                        .new = name_##_new,                                                                            \
                        .free = core_free,                                                                             \
                        .configure = tapped_configure,                                                                 \
                        .node_new = tapped_node_new,                                                                   \
                        .node_free = tapped_node_free,                                                                 \
                        .node_configure = tapped_node_configure,                                                       \
                        .entity_new = tapped_entity_new,                                                               \
                        .entity_free = tapped_entity_free,                                                             \
                        .entity_configure = tapped_entity_configure,                                                   \
                        .entity_move = tapped_entity_move,                                                             \
                        .entity_ready = tapped_entity_ready,                                                           \
                        .entity_idle = tapped_entity_idle,                                                             \
                        .entity_drained = tapped_entity_drained,                                                       \
                        .entity_tail = tapped_entity_tail,                                                             \
                        .entity_tail_had = tapped_entity_tail_had,                                                     \
                        .entity_usage = core_entity_usage,                                                             \
                        .entity_wait = core_entity_wait,                                                               \
                        .device_usage = core_device_usage,                                                             \
                        .level = core_level,                                                                           \
                        .outside = tapped_outside,                                                                     \
                        .dispatch = tapped_dispatch,                                                                   \
        }
