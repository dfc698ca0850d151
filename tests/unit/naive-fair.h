/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Shared by the five files of the oracle: its objects, the fair queues, its nodes, its floor, and its orderings. A
 * queue is a node in a tier, and is not stored: every question about it is answered by looking at all that are in it.
 */

#include "policy/policy.h"

#define NAIVE_TIERS  (POLICY_PRIORITY_MAX - POLICY_PRIORITY_MIN + 1)
#define NAIVE_GAPS   16
#define NAIVE_BELOW  256
#define NAIVE_RECENT (100 * NSEC_PER_MSEC)

/* An entity, or a node in one tier. */
typedef struct Member {
        PolicyEntity *e; /* or */
        PolicyNode *node;
        uint32_t weight;
        bool here, remembered;
        uint32_t places, used;
        uint64_t v, deadline, left;
        int64_t lag;      /* of an absent member: the lag that it comes back with */
        uint64_t left_at; /* by the queue's clock */
        uint64_t left_order, wait_order, run_order;
} Member;

/* A place on the floor: the path to it from the root, and the time of its last turn. */
#define NAIVE_FLOORS (POLICY_DEPTH_MAX + 3)

typedef struct NaiveOrdering NaiveOrdering;

typedef struct FloorPath {
        uint64_t node[NAIVE_FLOORS], user[NAIVE_FLOORS];
        size_t n;
} FloorPath;

typedef struct FloorPlace {
        FloorPath path;
        uint64_t turn;
} FloorPlace;

struct PolicyNode {
        Policy *p;
        PolicyNode *parent;
        PolicyNodeSettings settings;
        uint64_t id;
        char *name;
        bool gone; /* freed, but kept because of its debt */
        Member in[NAIVE_TIERS];
        uint64_t v_left[NAIVE_TIERS]; /* V of an empty queue: its last value */
        uint64_t clock[NAIVE_TIERS];

        bool stopped;
        uint64_t quota, period, used, begin, refill;
        int64_t credit;
        bool wanting, due_listed;
        uint64_t due;
};

struct PolicyEntity {
        Policy *p;
        void *owner;
        PolicyNode *node;
        int tier;
        uint32_t threshold;
        PolicyParty party;
        PolicySettings settings;
        Member m;
        bool ready, was_ready, chosen;
        bool kept, behind, draining, by_floor, by_turn, blocked, awaits, stands;
        uint64_t kept_until, kept_order, drain_until, drain_order;
        uint64_t chosen_order, held_order, grant_order, idle_order;
        uint64_t held_since, idle_since, awaited_ns;
        uint64_t gaps[NAIVE_GAPS]; /* the latest last */
        size_t n_gaps;
        uint64_t trusted;
        uint64_t placed, foreseen; /* hundredfold credit for late gaps */
        PolicyGrant grant;

        /* The levels that its ordering gives it, and the ones in force. */
        int level;
        uint64_t rank, budget, budget_left, alarm;
        uint64_t rank_in_force, turn_order, alarm_in_force, alarm_order;
        bool here; /* granted, or its place is kept */
        uint64_t here_since;
        int down;
        uint64_t down_since, used;
};

/* Two numbers that an ordering keeps for a party, and the time used on each level since then. */
typedef struct NaiveParty {
        uint64_t top, owner, since, used[8];
} NaiveParty;

struct Policy {
        const NaiveOrdering *ordering; /* NULL: that of the tree */
        NaiveParty *parties;
        size_t n_parties;
        int outside; /* the highest tier of other devices */
        PolicyConfig config;
        PolicyCallbacks callbacks;
        PolicyEntity **all;
        size_t n;
        PolicyNode **nodes; /* but the root */
        size_t n_nodes;
        PolicyNode root;
        uint64_t now, wake, order;
        uint64_t contended_until[NAIVE_TIERS], crowded_until[NAIVE_TIERS];
        uint64_t crowd_ns, crowd_at; /* contention of tier `crowd`, less a part of all time */
        int crowd;                   /* -1: none yet */
        bool contends;
        unsigned n_missed[NAIVE_TIERS]; /* entities that came since one came that would have been granted in advance */
        int active;                     /* -1: none */
        uint32_t slots;
        FloorPlace *floor;
        size_t n_floor;
        PolicyEntity *owed, *linger, *last;
        uint64_t owed_until, owed_next, linger_until;
        bool lingering;
        PolicyNode *guaranteed;
        int turn; /* its tier */
        uint64_t turn_until;
};

#define FOR_EACH(p, e) for (PolicyEntity **_i = (p)->all, *e; _i < (p)->all + (p)->n && (e = *_i, true); _i++)
#define FOR_EACH_NODE(p, x)                                                                                            \
        for (PolicyNode **_n = (p)->nodes, *x; _n < (p)->nodes + (p)->n_nodes && (x = *_n, true); _n++)

typedef struct Below {
        Member *m[NAIVE_BELOW];
        size_t n;
} Below;

/* All children of a node in a tier, here or away. */
Below naive_below(const PolicyNode *n, int tier);

/* The runners, in the order of falling weights for a place, earlier ones first. */
Below naive_runners(const PolicyNode *n, int tier);

/* How many entities below could run. */
uint32_t naive_places(const PolicyNode *n, int tier);

void naive_join(PolicyNode *n, int tier, Member *m, uint32_t places);
void naive_leave(PolicyNode *n, int tier, Member *m);
void naive_remember(PolicyNode *n, int tier, Member *m);
void naive_reweight(PolicyNode *n, int tier, Member *m, uint32_t weight);
void naive_charge(PolicyNode *n, int tier, Member *m, uint64_t ns);
void naive_charge_tail(PolicyNode *n, int tier, Member *m, uint64_t ns);
int64_t naive_lag(PolicyNode *n, int tier, const Member *m);
bool naive_is_even(const PolicyNode *n, int tier);

/* The number of the member's places that are still blocked by tails. */
uint32_t naive_n_blocked(const Member *m, int tier);

/* Charges each runner below. */
void naive_advance(PolicyNode *n, int tier, uint32_t slots, uint64_t ns);
void naive_choose(PolicyNode *n, int tier, uint32_t slots);
uint64_t naive_left(PolicyNode *n, int tier, uint32_t slots);

/* --- naive-node.c --- */

void naive_refill(Policy *p);
bool naive_is_out(const PolicyNode *n);
bool naive_is_spent(PolicyNode *n);
bool naive_is_stopped(PolicyNode *n);
bool naive_is_limited(const PolicyNode *n);
size_t naive_n_chosen(const PolicyNode *n);
void naive_add_credit(PolicyNode *n, int64_t credit);
void naive_list_due(PolicyNode *n, bool again);
void naive_fit_up(PolicyNode *n, int tier);
void naive_set_stopped(PolicyNode *n, bool stopped);
void naive_forget_unused(Policy *p);
void naive_free_node(PolicyNode *n);
void naive_bury(Policy *p);
PolicyNode *naive_make_node(PolicyNode *parent, const PolicyNodeSettings *s); /* or changes its settings */
int naive_highest_of(const PolicyNode *n);
void naive_continue_turn(Policy *p);
PolicyNode *naive_first_due(const Policy *p);
bool naive_begin_turn(Policy *p);
bool naive_has_turn(const PolicyEntity *e); /* whether the entity is below the node whose turn it is */
void naive_set_node(PolicyNode *n, const PolicyNodeSettings *s);
/* Charges the time that an entity ran, or that a place was kept for it, to all its nodes. Time for which it was chosen
 * is also taken from their minima's credit. */
void naive_charge_above(PolicyEntity *e, uint64_t from, uint64_t ns, bool ran, bool chosen);
size_t naive_n_ready(const Policy *p);
void naive_check_quotas(PolicyEntity *e);
void naive_change(PolicyEntity *e, PolicyNode *node, int tier); /* to another */
uint64_t naive_quota_left(const Policy *p);                     /* time until a maximum may be used up */

/* --- naive-keep.c --- */

/* The gap that it would have been best to wait for. */
uint64_t naive_worth_waiting(const PolicyEntity *e, uint64_t limit);

bool naive_keep_begin(PolicyEntity *e);

/* Takes the time by which the gap was late from the entity's credit. */
void naive_gap_ended(PolicyEntity *e, uint64_t gap);
void naive_keep_end(PolicyEntity *e);
void naive_keep_drop(PolicyEntity *e); /* its place is kept no longer; the caller calls naive_order_follow() later */
bool naive_review_kept(Policy *p);
bool naive_drop_kept(Policy *p);
uint64_t naive_next_keep_end(const Policy *p);

/* It ran last: the device may be kept for it, from lower tiers. And the end of that. */
void naive_note_last(PolicyEntity *e);
void naive_linger_end(Policy *p, bool back);

/* Tails of held entities that still have the device, and the entities that wait for them. */
void naive_drain_begin(PolicyEntity *e);
void naive_tail(PolicyEntity *e);
bool naive_tail_is_beside(const PolicyEntity *e);
PolicyEntity *naive_next_drainer(const Policy *p, const PolicyEntity *after);
void naive_note_blocked(Policy *p);

/* Notes the chosen entities that are not granted before tails are over. Adds the time that they waited. */
void naive_note_awaiting(Policy *p);
bool naive_turn_awaits(const Policy *p); /* whether the turn of a minimum waits */
void naive_account_awaiting(Policy *p, uint64_t ns);

/* The time when the next tail that an entity waits for reaches its bound. The entity may be granted or not. */
uint64_t naive_next_tail_end(const Policy *p);
void naive_charge_tails(Policy *p, uint64_t from, uint64_t ns);

/* --- naive-advance.c --- */

int naive_highest(const Policy *p); /* the highest tier with an entity; -1: there is none */

/* Whether fewer than POLICY_ADVANCE_MAX idle entities of its tier are more recent. */
bool naive_is_recent(const PolicyEntity *e);

/* Whether the entity is granted in advance: idle, of the highest tier, and recent. */
bool naive_is_advanced(const PolicyEntity *e);

/* Whether somebody has a claim against it: it gets a threshold. */
bool naive_is_claimed(const PolicyEntity *e);

/* Whether the entity may keep its grant while it is idle. */
bool naive_may_stand(const PolicyEntity *e);
void naive_end_standing(Policy *p);

/* --- naive-order.c --- */

bool naive_is_ranked(const Policy *p, int tier);
uint64_t naive_slice(const Policy *p, int tier);
uint32_t naive_weight(const Policy *p, const PolicySettings *s);
uint32_t naive_node_weight(const Policy *p, const PolicyNodeSettings *s);

/* Without an ordering the following functions do nothing. */

void naive_order_begin(PolicyEntity *e);
void naive_order_told(PolicyEntity *e);
void naive_order_comes(PolicyEntity *e);
void naive_order_goes(PolicyEntity *e, bool now);
void naive_order_follow(PolicyEntity *e);
void naive_order_joins(PolicyEntity *e);
void naive_order_ran(PolicyEntity *e, uint64_t ns);
void naive_order_advance(Policy *p, uint64_t ns);
bool naive_order_tick(Policy *p);
uint64_t naive_order_next(const Policy *p);
void naive_order_choose(PolicyNode *n, int tier, uint32_t slots);
bool naive_order_is_worth_keeping(const PolicyEntity *e);

/* --- naive-floor.c --- */

/* Gives each level of the entity's path a place, and removes the places of levels without entities. */
void naive_floor_note(PolicyEntity *e);
void naive_floor_forget(Policy *p);
void naive_floor_change(PolicyEntity *e, const PolicyParty *to);

/* The next of the entities that are held since `until` or longer and are not chosen. NULL: there is none. */
PolicyEntity *naive_floor_next(const Policy *p, uint64_t until);
void naive_floor_take_turn(PolicyEntity *e);

/* Tells since when the entity is held; says nothing of maxima. */
bool naive_entity_wait(const PolicyEntity *e, PolicyWait *ret);
