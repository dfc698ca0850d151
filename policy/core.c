/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The core of every policy: the events. An event changes its own object only. The dispatch that the caller asks for
 * next decides what follows from it (choose.c).
 */

#include <sys/mman.h>
#include <utlist.h>

#include "charge.h"
#include "debt.h"
#include "drain.h"
#include "floor.h"
#include "keep.h"
#include "node.h"
#include "ordering.h"
#include "parties.h"
#include "place.h"
#include "standing.h"
#include "tier.h"
#include "usage.h"

/* The entity's weight among its siblings. */
static uint32_t entity_weight(const PolicyEntity *e) {
        const OrderOps *ops = e->policy->ordering;

        return ops->weight ? ops->weight(&e->settings) : POLICY_WEIGHT_DEFAULT;
}

static PolicySettings settings_clamp(const PolicySettings *s) {
        return (PolicySettings){
                        .priority = CLAMP(s->priority, POLICY_PRIORITY_MIN, POLICY_PRIORITY_MAX),
                        .weight = CLAMP(s->weight, POLICY_WEIGHT_MIN, POLICY_WEIGHT_MAX),
                        .threshold = s->threshold,
                        .party = s->party,
                        .threshold_lowers = s->threshold_lowers,
                        .deadline_us = MIN(s->deadline_us, (uint32_t) (POLICY_DELAY_MAX / NSEC_PER_USEC)),
                        .laxity_us = MIN(s->laxity_us, (uint32_t) (POLICY_DELAY_MAX / NSEC_PER_USEC)),
                        .critical = CLAMP(s->critical, POLICY_PRIORITY_MIN, POLICY_PRIORITY_MAX),
                        .utilization = CLAMP(s->utilization, POLICY_WEIGHT_MIN, POLICY_WEIGHT_MAX),
                        .nice = CLAMP(s->nice, POLICY_NICE_MIN, POLICY_NICE_MAX),
                        .cpu_priority = CLAMP(s->cpu_priority, POLICY_PRIORITY_MIN, POLICY_PRIORITY_MAX),
                        .active = s->active,
        };
}

static PolicyNode *core_node(Policy *p, PolicyNode *n) {
        return n ?: &p->root;
}

int core_entity_new(Policy *p, PolicyNode *node, void *owner, const PolicySettings *s, uint64_t now_ns,
                PolicyEntity **ret) {
        PolicyEntity *e = malloc(sizeof(*e));
        if (!e)
                return -ENOMEM;

        node = core_node(p, node);
        core_advance(p, now_ns);
        *e = (PolicyEntity){
                        .policy = p,
                        .owner = owner,
                        .settings = settings_clamp(s),
                        .node = node,
                        .grant = {.verdict = VERDICT_RUN},
                        .idle_since_ns = NSEC_INFINITY,
                        .accounted_ns = p->now_ns,
        };
        if (!party_get(p, &e->settings.party, &e->party)) {
                free(e);
                return -ENOMEM;
        }
        entity_order_init(e);
        e->branch = branch_get(node, core_tier(p, e->order.level));
        if (!e->branch) {
                party_put(p, e->party);
                free(e);
                return -ENOMEM;
        }
        e->floor = floor_get(node, &e->settings.party);
        if (!e->floor) {
                branch_put(e->branch);
                party_put(p, e->party);
                free(e);
                return -ENOMEM;
        }
        e->id = ++p->entity_seq;
        node->n_below++;
        p->n_entities++;
        tier_add(e->branch->tier);
        fair_node_init(&e->fair, entity_weight(e));
        entity_idle_begin(e);
        e->grant_seq = ++p->grant_seq;
        DL_PREPEND2(p->granted, e, granted_prev, granted_next);

        *ret = e;
        return 0;
}

void core_entity_ready(PolicyEntity *e, uint64_t now_ns) {
        Policy *p = e->policy;

        core_advance(p, now_ns);
        if (e->ready)
                return;

        entity_stand_end(e);
        entity_note_advance(e);
        if (!e->kept)
                entity_enqueue(e);
        entity_account(e);
        entity_idle_end(e);
        e->ready = true;
        p->n_ready++;
        p->last = NULL;
        if (p->linger == e)
                core_linger_end(p, true);
        if (e->idle_since_ns != NSEC_INFINITY) {
                uint64_t gap_ns = ns_sub(p->now_ns, e->idle_since_ns);

                gaps_learn(&e->gaps, gap_ns);
                patience_end_gap(&e->patience, gap_ns);
        }
        if (e->grant.verdict == VERDICT_HOLD)
                entity_hold_begin(e);
        else if (e->draining)
                entity_drain_end(e);
        if (e->kept)
                entity_keep_back(e);
        else
                entity_join(e);
}

/* Keeps the best candidate: in the highest tier, and among equals the one that may be back last. */
static void core_consider_linger(Policy *p, PolicyEntity *e, uint64_t gap_ns) {
        uint64_t until = ns_add(p->now_ns, gap_ns);

        if (until <= p->now_ns)
                return;
        if (p->linger && p->now_ns < p->linger_until_ns &&
                        (p->linger->branch->tier > e->branch->tier ||
                                        (p->linger->branch->tier == e->branch->tier && p->linger_until_ns >= until)))
                return;
        p->linger = e;
        p->linger_until_ns = until;
}

void core_entity_idle(PolicyEntity *e, uint64_t now_ns) {
        Policy *p = e->policy;
        uint64_t gap_ns;

        core_advance(p, now_ns);
        if (!e->ready)
                return;

        if (e->draining)
                entity_drain_end(e);
        entity_account(e);
        e->ready = false;
        e->idle_since_ns = p->now_ns;
        gap_ns = gaps_worth_waiting(&e->gaps, p->config.linger_ns);
        p->n_ready--;
        if (p->owed == e)
                p->owed = NULL;
        if (e->grant.verdict == VERDICT_HOLD)
                entity_hold_end(e);
        else {
                p->last = e;
                core_consider_linger(p, e, gap_ns);
        }
        entity_idle_begin(e);
        if (entity_keep_begin(e, gap_ns))
                return;
        entity_unchoose(e);
        entity_leave(e);
        entity_dequeue(e);
        entity_follow(e);
}

static void core_forget_advance(Policy *p, const PolicyEntity *e) {
        for (size_t i = 0; i < p->n_advanced; i++)
                if (p->advanced[i] == e) {
                        p->advanced[i] = p->advanced[--p->n_advanced];
                        return;
                }
}

PolicyEntity *core_entity_free(PolicyEntity *e, uint64_t now_ns) {
        Policy *p = e->policy;

        core_entity_idle(e, now_ns);
        entity_stand_end(e);
        entity_drain_end(e);
        entity_keep_end(e);
        entity_order_end(e);
        entity_idle_end(e);
        entity_forget_fair(e);
        core_forget_advance(p, e);
        if (e->grant.verdict == VERDICT_RUN)
                DL_DELETE2(p->granted, e, granted_prev, granted_next);
        if (p->last == e)
                p->last = NULL;
        if (p->linger == e)
                p->linger = NULL;
        e->node->n_below--;
        p->n_entities--;
        tier_subtract(e->branch->tier);
        branch_put(e->branch);
        floor_put(e->floor);
        party_put(p, e->party);
        free(e);
        return NULL;
}

/* Takes over the reference to the floor. A hold begins anew, so the entity is the last in the new order. */
static void entity_change_floor(PolicyEntity *e, Floor *to) {
        Floor *from = e->floor;
        bool held = e->held;

        entity_hold_end(e);
        e->floor = to;
        if (held)
                entity_hold_begin(e);
        floor_put(from);
}

static void entity_configure_weight(PolicyEntity *e) {
        uint32_t weight = entity_weight(e);

        if (weight != e->fair.weight && !e->branch->tier->ranked)
                fair_queue_reweight(&e->branch->fair, &e->fair, weight);
        e->fair.weight = weight;
}

/* Without memory for a floor the entity stays where it is. */
static void entity_configure_party(PolicyEntity *e, const PolicyParty *party) {
        Party *kept;
        Floor *to;

        if (party->top == e->settings.party.top && party->owner == e->settings.party.owner &&
                        party->user == e->settings.party.user)
                return;
        to = floor_get(e->node, party);
        if (!to)
                return;
        entity_change_floor(e, to);
        if (!party_get(e->policy, party, &kept))
                return;
        party_put(e->policy, e->party);
        entity_set_party(e, kept);
}

void core_entity_configure(PolicyEntity *e, const PolicySettings *s, uint64_t now_ns) {
        Policy *p = e->policy;

        core_advance(p, now_ns);
        entity_stand_end(e);
        entity_configure_party(e, &s->party);
        e->settings = settings_clamp(s);
        entity_configure_weight(e);
        entity_hint(e);
}

int core_entity_move(PolicyEntity *e, PolicyNode *to, uint64_t now_ns) {
        Policy *p = e->policy;

        to = core_node(p, to);
        core_advance(p, now_ns);
        if (to == e->node)
                return 0;
        Branch *b = branch_get(to, e->branch->tier);
        if (!b)
                return -ENOMEM;
        Floor *f = floor_get(to, &e->settings.party);
        if (!f) {
                branch_put(b);
                return -ENOMEM;
        }
        entity_change_branch(e, b);
        entity_change_floor(e, f);
        e->node->n_below--;
        e->node = to;
        e->node->n_below++;
        return 0;
}

/* The launches that it had in flight when it was held are complete. */
void core_entity_drained(PolicyEntity *e, uint64_t now_ns) {
        core_advance(e->policy, now_ns);
        entity_drain_end(e);
}

/* The device is not kept for it, because it may be away for long. */
void core_entity_tail(PolicyEntity *e, uint64_t now_ns) {
        Policy *p = e->policy;

        core_advance(p, now_ns);
        if (e->draining || (e->ready && e->grant.verdict == VERDICT_RUN))
                return;
        entity_account(e);
        entity_keep_end(e);
        if (p->linger == e)
                p->linger = NULL;
        if (p->last == e)
                p->last = NULL;
        entity_stand_end(e);
        entity_drain_begin(e);
}

/* For the second part of the time the tail is not there. */
void core_entity_tail_had(PolicyEntity *e, uint64_t ns, uint64_t now_ns) {
        Policy *p = e->policy;
        uint64_t until_ns = ns_add(p->now_ns, ns);

        if (!entity_has_tail(e) || core_n_blocked(p) == 0)
                return;
        core_advance(p, MIN(until_ns, now_ns));
        if (!e->draining)
                return;
        PolicyEntity *next = entity_drain_pause(e);
        core_advance(p, now_ns);
        entity_drain_resume(e, next);
        core_advance(p, now_ns);
}

void core_device_usage(const Policy *p, uint64_t now_ns, PolicyDeviceUsage *ret) {
        *ret = core_usage_at(p, now_ns);
}

void core_entity_usage(const PolicyEntity *e, uint64_t now_ns, PolicyUsage *ret) {
        *ret = entity_usage_at(e, now_ns);
}

/* Returns one of the running entities; while tails are waited for, one that still has the device, and for that one, one
 * of those that run. */
static const PolicyEntity *entity_waits_for(const PolicyEntity *of) {
        const Policy *p = of->policy;
        const PolicyEntity *e;

        DL_FOREACH2(p->chosen, e, chosen_next)
                if (!e->awaits_tail)
                        return e;
        e = p->owed ?: p->draining;
        return e == of && p->chosen ? p->chosen : e;
}

/* Of several maxima the longest one counts. */
bool core_entity_wait(const PolicyEntity *e, PolicyWait *ret) {
        const PolicyEntity *runner = entity_waits_for(e);
        PolicyWait w = {.since_ns = e->held_since_ns, .runner = runner ? runner->owner : NULL};

        if (!e->held)
                return false;
        for (const PolicyNode *n = e->node; n; n = n->parent) {
                uint64_t until = n->stopped ? quota_refill(&n->quota) : 0;

                if (n->stopped && until > w.until_ns) {
                        w.stopped_by = n;
                        w.until_ns = until;
                }
        }
        *ret = w;
        return true;
}

/* --- nodes --- */

static PolicyNode *node_make(PolicyNode *parent, const char *name) {
        _cleanup_free_ char *copy = name ? strdup(name) : NULL;
        PolicyNode *n = malloc(sizeof(*n));

        if (!n || (name && !copy)) {
                free(n);
                return NULL;
        }
        node_init(n, parent->policy, parent);
        n->name = TAKE_PTR(copy);
        parent->n_below++;
        return n;
}

int core_node_new(Policy *p, PolicyNode *parent, const PolicyNodeSettings *s, uint64_t now_ns, PolicyNode **ret) {
        parent = core_node(p, parent);
        if (parent->depth >= POLICY_DEPTH_MAX)
                return -EINVAL;

        core_advance(p, now_ns);
        PolicyNode *n = node_come_back(parent, s->name);
        if (!n) {
                n = node_make(parent, s->name);
                if (!n)
                        return -ENOMEM;
        }
        node_configure(n, s);
        *ret = n;
        return 0;
}

PolicyNode *core_node_free(PolicyNode *n, uint64_t now_ns) {
        core_advance(n->policy, now_ns);
        node_leave(n);
        return NULL;
}

void core_node_configure(PolicyNode *n, const PolicyNodeSettings *s, uint64_t now_ns) {
        core_advance(n->policy, now_ns);
        core_standing_end(n->policy);
        node_configure(n, s);
}

/* --- several devices --- */

int core_level(const Policy *p) {
        const Tier *top = core_highest(p, &p->with_places);

        if (p->turn && p->turn->tier > top)
                top = p->turn->tier;
        return top ? core_level_of(p, top) : POLICY_LEVEL_NONE;
}

void core_outside(Policy *p, int level, uint64_t now_ns) {
        core_advance(p, now_ns);
        p->outside_level = p->ordering->global ? level : POLICY_LEVEL_NONE;
}

/* --- the instance --- */

static bool config_is_valid(const PolicyConfig *c) {
        return c->concurrency >= 1 && c->timeslice_ns >= 1 && c->timeslice_ns <= FAIR_STEP_MAX / FAIR_LAG_SLICES &&
                        c->starve_run_ns <= c->starve_ns;
}

/* All of them are 170 kB, and a device uses one or two: the kernel gives memory to the pages that are written. calloc()
 * may take a piece of the heap, and clear it. */
static Tier *tiers_new(void) {
        void *p = mmap(NULL, CORE_TIERS * sizeof(Tier), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        return p == MAP_FAILED ? NULL : p;
}

int core_new(const OrderOps *ops, const PolicyConfig *config, const PolicyCallbacks *callbacks, Policy **ret) {
        if (!config_is_valid(config))
                return -EINVAL;

        Policy *p = calloc(1, sizeof(*p));
        if (!p)
                return -ENOMEM;

        p->tiers = tiers_new();
        if (!p->tiers) {
                free(p);
                return -ENOMEM;
        }
        p->config = *config;
        p->callbacks = *callbacks;
        p->wake_ns = p->latest_ns = NSEC_INFINITY;
        ordering_init(p, ops);
        node_init(&p->root, p, NULL);
        core_indices_init(p);
        debts_init(p);
        floor_init(p);
        parties_init(p);

        *ret = p;
        return 0;
}

Policy *core_free(Policy *p) {
        debts_forget(p);
        parties_forget(p);
        (void) munmap(p->tiers, CORE_TIERS * sizeof(Tier));
        free(p);
        return NULL;
}

int core_configure(Policy *p, const PolicyConfig *config, uint64_t now_ns) {
        PolicyNode *n;
        PolicyEntity *e;

        if (!config_is_valid(config))
                return -EINVAL;

        core_advance(p, now_ns);
        core_standing_end(p);
        DL_FOREACH2(p->draining, e, draining_next)
                entity_account(e);
        p->config = *config;
        DL_FOREACH2(p->guarantees, n, guarantee_next)
                node_configure_turns(n);
        if (p->guaranteed)
                p->turn_until_ns = MIN(p->turn_until_ns, ns_add(p->now_ns, config->timeslice_ns));
        if (p->owed)
                p->owed_until_ns = MIN(p->owed_until_ns, ns_add(p->now_ns, config->starve_run_ns));
        if (p->linger)
                p->linger_until_ns = MIN(p->linger_until_ns, ns_add(p->linger->idle_since_ns, config->linger_ns));
        DL_FOREACH2(p->kept, e, kept_next)
                e->kept_until_ns = MIN(e->kept_until_ns, ns_add(e->idle_since_ns, config->linger_ns));
        return 0;
}
