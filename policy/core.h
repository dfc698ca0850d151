/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What every policy has, whatever its ordering (order.h) is: the objects that the files of the core share. The
 * decisions, and why they are right, stand in choose.c; what a node is, in node.h; the events in core.c; what becomes
 * of the words of an ordering, in ordering.h.
 */

#include "fair.h"
#include "gaps.h"
#include "guarantee.h"
#include "order.h"
#include "patience.h"
#include "policy.h"
#include "quota.h"

#define CORE_TIERS     ((size_t) (POLICY_PRIORITY_MAX - POLICY_PRIORITY_MIN + 1))
#define CORE_WORD_BITS 64U

/* Equals that contended this short a time ago are expected to contend again: their thresholds stay. */
#define CORE_RECENT_NS (100 * NSEC_PER_MSEC)

typedef struct Branch Branch;
typedef struct Floor Floor;
typedef struct Party Party;
typedef struct Tier Tier;

/* What of a node is in one tier. */
struct Branch {
        PolicyNode *node;
        Tier *tier;
        Branch *parent;      /* of the node above, in the same tier; NULL: the root's */
        FairQueue fair;      /* entities and branches below that could run */
        FairNode self;       /* in the parent's queue, while something below could run */
        bool apart;          /* not there, because it has a turn of its own */
        uint32_t counted;    /* places that the node has counted */
        size_t n_refs;       /* entities, and branches, below; none: it is dormant, see debt.h */
        size_t n_dormant;    /* branches below that are */
        Branch *prev, *next; /* of the node, the highest tier first */
};

struct PolicyNode {
        Policy *policy;
        PolicyNode *parent; /* NULL: the root */
        unsigned depth;
        uint64_t id; /* order among equals */
        PolicyNodeSettings settings;
        Branch *branches;
        size_t n_below;    /* nodes, those that are gone, too, and entities */
        uint32_t places;   /* entities below that could run, if nothing above kept them from it */
        uint32_t n_chosen; /* entities below that were chosen by the last dispatch */

        Quota quota;
        bool stopped;
        AvlNode refill_order; /* stopped, and something below waits for the end of the period */
        uint64_t refill_ns;
        bool refilling;

        Guarantee guarantee;
        PolicyNode *guarantee_prev, *guarantee_next; /* with a minimum */
        AvlNode due_order;                           /* wanting, and nothing below is chosen */
        uint64_t due_ns;
        bool listed_due;

        Floor *floors; /* of the parties below, by node_prev/node_next */

        char *name; /* debt.h; NULL: it is not found again */
        bool gone;  /* the caller has freed it */
        AvlNode gone_order;
        PolicyNode *gone_prev, *gone_next;
};

/* A node, or a party and what it is made of, where no node is. */
typedef struct FloorKey {
        uint64_t node, user;
} FloorKey;

/* Whose turn it is among the starved: floor.h. */
struct Floor {
        FloorKey key;
        PolicyNode *node; /* NULL: not a node's */
        Floor *parent;    /* NULL: the root */
        size_t n_refs;    /* entities, and floors, below */
        Floor *node_prev, *node_next;

        AvlNode known_order; /* in the parent's `known` */
        Avl known;           /* right below, by key */

        uint64_t turn;       /* the lower the longer ago */
        uint64_t since_ns;   /* of the longest held below; NSEC_INFINITY: nobody, or stopped */
        uint64_t longest_ns; /* the earliest of all below it in `order` */
        AvlNode order;       /* in the parent's `waiting`, while somebody below is held */
        Avl waiting;         /* right below, by their turns */
        PolicyEntity *held;  /* of a leaf, the longest held first */
};

struct Tier {
        Branch root;
        bool ranked;        /* its queues are those of rank.h */
        PolicyEntity *idle; /* the most recently ready (or new) first */
        size_t n_entities;
        uint64_t contended_until_ns;
};

/* Tiers by number, 0 the lowest priority. */
typedef struct TierSet {
        uint64_t words[(CORE_TIERS + CORE_WORD_BITS - 1) / CORE_WORD_BITS];
} TierSet;

struct PolicyEntity {
        Policy *policy;
        void *owner;
        PolicySettings settings;
        PolicyNode *node;
        Branch *branch;
        Floor *floor;
        FairNode fair;
        OrderEntity order;
        Party *party;        /* NULL: the ordering keeps nothing of parties */
        uint64_t left_ns;    /* of its budget */
        AvlNode alarm_order; /* its alarm is set, */
        uint64_t alarm_ns;   /* NSEC_INFINITY: it is not */
        uint64_t alarm_seq;

        bool ready;
        bool chosen;       /* by the last dispatch, and ready since */
        bool awaits_tail;  /* chosen, and held until an equal's tail is over: drain.h */
        bool advanced;     /* idle, and one of Policy.advanced */
        PolicyGrant grant; /* last reported */

        bool kept; /* idle, and has its place still: keep.h */
        uint64_t kept_until_ns;
        bool behind; /* was owed more than a slice, and has not had it yet */
        PolicyEntity *kept_prev, *kept_next;

        bool draining; /* what it launched before it was held, or stopped, may run on: drain.h */
        uint64_t drain_until_ns;
        bool by_floor; /* it was let go by a turn of the floor */
        bool blocked;  /* marked by core_block() */
        PolicyEntity *draining_prev, *draining_next;

        bool held; /* ready with VERDICT_HOLD, and on the floor's list */
        PolicyEntity *held_prev, *held_next;
        PolicyEntity *idle_prev, *idle_next;
        PolicyEntity *chosen_prev, *chosen_next;
        PolicyEntity *granted_prev, *granted_next;

        uint64_t held_since_ns;
        uint64_t idle_since_ns; /* NSEC_INFINITY until it has been ready once */
        Gaps gaps;
        Patience patience;

        uint64_t accounted_ns; /* `usage` is complete up to here */
        PolicyUsage usage;
};

struct Policy {
        const OrderOps *ordering;
        Order order;
        uint64_t rank_seq; /* order among those of one rank */
        Avl alarms;
        uint64_t alarm_seq;
        Avl parties;         /* parties.h */
        Party *gone_parties; /* for longest first */
        size_t n_gone_parties;
        int outside_level; /* on other devices: PolicyOps.outside() */

        PolicyConfig config;
        PolicyCallbacks callbacks;
        uint64_t now_ns;
        uint64_t wake_ns;        /* when we asked to be called */
        PolicyDeviceUsage usage; /* up to now_ns */

        PolicyNode root;
        Tier *tiers; /* CORE_TIERS of them; those that are in use have memory, by pages */
        TierSet registered, with_places;
        size_t n_entities, n_ready;
        PolicyNode *guarantees; /* nodes with a minimum */
        uint64_t node_seq;

        Tier *active; /* its tree's runners are chosen, on so many places: */
        uint32_t slots;
        PolicyEntity *chosen;  /* in the order of the trees */
        PolicyEntity *granted; /* last reported with VERDICT_RUN */
        PolicyEntity *advanced[POLICY_ADVANCE_MAX];
        size_t n_advanced;
        PolicyEntity *last; /* ran last, and is idle */

        PolicyEntity *draining; /* the longest held first */
        size_t n_draining;
        PolicyEntity *kept;

        Avl due;                /* nodes that their minimum may be owed, the first due first */
        PolicyNode *guaranteed; /* has its turn now, */
        Branch *turn;           /* with this branch */
        uint64_t turn_until_ns;

        PolicyNode *gone; /* for longest first */
        PolicyNode *gone_next;
        Avl gone_names; /* those that have one, by parent and name */
        size_t n_gone, n_dormant;

        Avl refills; /* stopped nodes that something waits for, the next to go on first */

        Floor floor; /* of all */
        uint64_t floor_turn;
        PolicyEntity *owed; /* has its turn from the floor now */
        uint64_t owed_until_ns;
        uint64_t owed_next_ns; /* no other turn before */

        PolicyEntity *linger; /* became idle, and may be back before linger_until_ns */
        uint64_t linger_until_ns;
        bool lingering; /* the device is being kept for it */
};

static inline Tier *core_tier(Policy *p, int priority) {
        return p->tiers + (CLAMP(priority, POLICY_PRIORITY_MIN, POLICY_PRIORITY_MAX) - POLICY_PRIORITY_MIN);
}

/* NULL when the set is empty. */
Tier *core_highest(const Policy *p, const TierSet *s);

/* After the counts of a tier changed. */
void core_note_tier(Tier *t);

/* --- choose.c --- */

/* Everything up to now happened under the verdicts of the last dispatch. */
void core_advance(Policy *p, uint64_t now_ns);

uint64_t core_dispatch(Policy *p, uint64_t now_ns);

/* --- usage.c --- */

/* Before `ready` or the reported verdict changes; and what it comes to at any time. */
void entity_account(PolicyEntity *e);
PolicyUsage entity_usage_at(const PolicyEntity *e, uint64_t now_ns);

/* What the device's time comes to at any time. */
PolicyDeviceUsage core_usage_at(const Policy *p, uint64_t now_ns);

/* Everything up to then is accounted, under what holds now. */
void core_account(Policy *p, uint64_t until_ns);

/* --- core.c --- */

/* Into the queues, and out of them. */
void entity_join(PolicyEntity *e);
void entity_leave(PolicyEntity *e);

/* Takes the reference to the branch. What it is owed in fair time goes with it. */
void entity_change_branch(PolicyEntity *e, Branch *to);

/* --- choose.c again --- */

/* It is chosen, after those who are; it is not any more. */
void entity_choose(PolicyEntity *e);
void entity_unchoose(PolicyEntity *e);

/* The turn, if there is one, ends. */
void core_end_turn(Policy *p);

/* --- the table of a policy, but for its name and its ordering --- */

int core_new(const OrderOps *ops, const PolicyConfig *config, const PolicyCallbacks *callbacks,
                Policy **ret);
Policy *core_free(Policy *p);
int core_configure(Policy *p, const PolicyConfig *config, uint64_t now_ns);
int core_node_new(Policy *p, PolicyNode *parent, const PolicyNodeSettings *s, uint64_t now_ns,
                PolicyNode **ret);
PolicyNode *core_node_free(PolicyNode *n, uint64_t now_ns);
void core_node_configure(PolicyNode *n, const PolicyNodeSettings *s, uint64_t now_ns);
int core_entity_new(Policy *p, PolicyNode *node, void *owner, const PolicySettings *s, uint64_t now_ns,
                PolicyEntity **ret);
PolicyEntity *core_entity_free(PolicyEntity *e, uint64_t now_ns);
void core_entity_configure(PolicyEntity *e, const PolicySettings *s, uint64_t now_ns);
int core_entity_move(PolicyEntity *e, PolicyNode *to, uint64_t now_ns);
void core_entity_ready(PolicyEntity *e, uint64_t now_ns);
void core_entity_idle(PolicyEntity *e, uint64_t now_ns);
void core_entity_drained(PolicyEntity *e, uint64_t now_ns);
void core_entity_tail(PolicyEntity *e, uint64_t now_ns);
void core_entity_usage(const PolicyEntity *e, uint64_t now_ns, PolicyUsage *ret);
bool core_entity_wait(const PolicyEntity *e, PolicyWait *ret);
void core_device_usage(const Policy *p, uint64_t now_ns, PolicyDeviceUsage *ret);
int core_level(const Policy *p);
void core_outside(Policy *p, int level, uint64_t now_ns);

#define DEFINE_POLICY(name_, description_, ...)                                                             \
        static const OrderOps name_##_order = {__VA_ARGS__};                                                \
        static int name_##_new(                                                                             \
                        const PolicyConfig *config, const PolicyCallbacks *callbacks, Policy **ret) {       \
                return core_new(&name_##_order, config, callbacks, ret);                                    \
        }                                                                                                   \
        const PolicyOps policy_##name_##_ops = {                                                            \
                        .ordering = &name_##_order,                                                         \
                        .name = #name_,                                                                     \
                        .description = description_,                                                        \
                        .new = name_##_new,                                                                 \
                        .free = core_free,                                                                  \
                        .configure = core_configure,                                                        \
                        .node_new = core_node_new,                                                          \
                        .node_free = core_node_free,                                                        \
                        .node_configure = core_node_configure,                                              \
                        .entity_new = core_entity_new,                                                      \
                        .entity_free = core_entity_free,                                                    \
                        .entity_configure = core_entity_configure,                                          \
                        .entity_move = core_entity_move,                                                    \
                        .entity_ready = core_entity_ready,                                                  \
                        .entity_idle = core_entity_idle,                                                    \
                        .entity_drained = core_entity_drained,                                              \
                        .entity_tail = core_entity_tail,                                                    \
                        .entity_usage = core_entity_usage,                                                  \
                        .entity_wait = core_entity_wait,                                                    \
                        .device_usage = core_device_usage,                                                  \
                        .level = core_level,                                                                \
                        .outside = core_outside,                                                            \
                        .dispatch = core_dispatch,                                                          \
        }
