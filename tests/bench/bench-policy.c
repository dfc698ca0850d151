/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What an event costs the tree policy, with 10, 1,000 and 100,000 entities on one device
 *
 * Three loads: `slices`, where all are ready in one tier and the end of each slice is the event; `edges`, where half
 * are ready and random ones become ready and idle; `tiers`, the same over many priorities. Then again below nodes,
 * three and six deep, a fifth of them with a maximum and as many with a minimum. Time is printed as the ratio to 10
 * entities in the same run (it grows faster than the steps do: 100,000 entities do not fit the cache). What is asserted
 * is free of noise: steps of the tree and grants reported per event.
 */

#include <math.h>
#include <stdio.h>

#include "policy/policy.h"

#define EVENTS 200000U

uint64_t bench_avl_steps;
static uint64_t n_grants;

typedef struct Load {
        const char *name;
        unsigned n_tiers;
        bool edges;
        unsigned depth; /* of the nodes; 0: none */
} Load;

/* The nodes of a load, about one for eight entities. */
typedef struct Nodes {
        PolicyNode **all;
        size_t n, first_leaf;
} Nodes;

typedef struct Result {
        double ns, steps, most_steps, grants;
} Result;

static void on_grant(void *owner, const PolicyGrant *grant, void *userdata) {
        n_grants++;
}

static uint64_t random_next(uint64_t *state) {
        *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        return *state >> 33;
}

static void toggle(PolicyEntity *e, bool *ready, uint64_t now) {
        if (*ready)
                policy_tree_ops.entity_idle(e, now);
        else
                policy_tree_ops.entity_ready(e, now);
        *ready = !*ready;
}

/* Runs the events; returns the most steps that one of them took. */
static uint64_t run(const Load *load, Policy *p, PolicyEntity **entities, bool *ready, size_t n) {
        uint64_t state = 1, now = NSEC_PER_SEC, wake = policy_tree_ops.dispatch(p, now), most = 0;

        for (size_t i = 0; i < EVENTS; i++) {
                uint64_t steps = bench_avl_steps;

                if (load->edges) {
                        size_t k = random_next(&state) % n;

                        now += 10 * NSEC_PER_USEC;
                        toggle(entities[k], &ready[k], now);
                } else
                        now = wake;
                wake = policy_tree_ops.dispatch(p, now);
                most = MAX(most, bench_avl_steps - steps);
        }
        return most;
}

/* Makes a tree with so many leaves at that depth, in which all nodes have equally many children. */
static Nodes nodes_new(const Load *load, Policy *p, size_t n_entities, uint64_t *state) {
        size_t leaves = MAX(n_entities / 8, (size_t) 2), level = 1, before = 0;
        size_t fan = MAX((size_t) pow((double) leaves, 1.0 / load->depth), (size_t) 2);
        Nodes nodes = {.all = calloc(4 * leaves + 64, sizeof(*nodes.all))};

        if (!nodes.all)
                abort();
        for (unsigned d = 0; d < load->depth; d++) {
                size_t next = d + 1 < load->depth ? level * fan : MAX(leaves, level * fan);

                next = MIN(next, 2 * leaves);
                for (size_t i = 0; i < next; i++) {
                        PolicyNodeSettings s = POLICY_NODE_SETTINGS_DEFAULT;
                        uint64_t kind = random_next(state) % 10;

                        s.weight = 1 + (uint32_t) (random_next(state) % 1000);
                        s.max = kind < 2 ? 40 : 0;
                        s.min = kind > 7 ? 1 : 0;
                        if (policy_tree_ops.node_new(p, d == 0 ? NULL : nodes.all[before + i % level], &s, NSEC_PER_SEC,
                                            &nodes.all[nodes.n + i]) < 0)
                                abort();
                }
                before = nodes.n;
                nodes.n += next;
                level = next;
        }
        nodes.first_leaf = before;
        return nodes;
}

static void nodes_free(Nodes *nodes) {
        while (nodes->n > 0)
                policy_tree_ops.node_free(nodes->all[--nodes->n], NSEC_INFINITY - 1);
        free(nodes->all);
}

static Result measure(const Load *load, size_t n) {
        const PolicyConfig config = POLICY_CONFIG_DEFAULT;
        PolicyEntity **entities = calloc(n, sizeof(*entities));
        bool *ready = calloc(n, sizeof(*ready));
        Nodes nodes = {};
        Policy *p = NULL;
        uint64_t state = 7, begin, steps, grants, most;

        if (!entities || !ready || policy_tree_ops.new(&config, &(PolicyCallbacks){.grant = on_grant}, &p) < 0)
                abort();
        if (load->depth > 0)
                nodes = nodes_new(load, p, n, &state);
        for (size_t i = 0; i < n; i++) {
                PolicySettings s = {.priority = (int) (random_next(&state) % load->n_tiers), .weight = 1};

                s.weight += (uint32_t) (random_next(&state) % 1000);
                PolicyNode *node = load->depth == 0
                                ? NULL
                                : nodes.all[nodes.first_leaf + random_next(&state) % (nodes.n - nodes.first_leaf)];
                if (policy_tree_ops.entity_new(p, node, NULL, &s, NSEC_PER_SEC, &entities[i]) < 0)
                        abort();
                if (!load->edges || i % 2 == 0)
                        toggle(entities[i], &ready[i], NSEC_PER_SEC);
        }
        (void) policy_tree_ops.dispatch(p, NSEC_PER_SEC);

        begin = now_ns();
        steps = bench_avl_steps;
        grants = n_grants;
        most = run(load, p, entities, ready, n);
        Result r = {
                        .ns = (double) (now_ns() - begin) / EVENTS,
                        .steps = (double) (bench_avl_steps - steps) / EVENTS,
                        .most_steps = (double) most,
                        .grants = (double) (n_grants - grants) / EVENTS,
        };

        for (size_t i = 0; i < n; i++)
                policy_tree_ops.entity_free(entities[i], NSEC_INFINITY - 1);
        nodes_free(&nodes);
        policy_tree_ops.free(p);
        free(entities);
        free(ready);
        return r;
}

/* An event and its dispatch walk this often along the waiting entities or branches of a level: a tail is charged, for
 * which it is taken out and put in again; the entity that became ready is put in; it takes the place of the runner, for
 * which it is taken out and the runner is put in. */
#define WALKS_MAX 5

/* Checks that no event costs more than these walks, each down a tree of height 1.44 * log2(n + 2) and back, and a few
 * steps along the trees of floors and alarms, which are small here; and a few grants. Most events walk less. */
static bool check(const Load *load, size_t n, const Result *r) {
        double walk = log2((double) n), height = 1.44 * log2((double) n + 2), levels = load->depth + 1;

        if (r->most_steps <= levels * (WALKS_MAX * 2 * height + 8) && r->steps <= levels * (4 * walk + 4) &&
                        r->grants <= 4)
                return true;
        fprintf(stderr, "%s: cost grows faster than log(n) at %zu entities\n", load->name, n);
        return false;
}

int main(void) {
        static const size_t sizes[] = {10, 1000, 100000};
        static const Load loads[] = {
                        {.name = "slices", .n_tiers = 1},
                        {.name = "edges", .n_tiers = 1, .edges = true},
                        {.name = "tiers", .n_tiers = 100, .edges = true},
                        {.name = "slices-3", .n_tiers = 1, .depth = 3},
                        {.name = "edges-3", .n_tiers = 1, .edges = true, .depth = 3},
                        {.name = "slices-6", .n_tiers = 1, .depth = 6},
                        {.name = "edges-6", .n_tiers = 1, .edges = true, .depth = 6},
                        {.name = "tiers-6", .n_tiers = 4, .edges = true, .depth = 6},
        };
        bool ok = true;

        printf("%-9s %8s %12s %12s %12s %14s\n", "load", "entities", "time ratio", "steps/event", "most steps",
                        "grants/event");
        for (size_t l = 0; l < ELEMENTSOF(loads); l++) {
                Result base = {};

                for (size_t i = 0; i < ELEMENTSOF(sizes); i++) {
                        Result r = measure(loads + l, sizes[i]);

                        if (i == 0)
                                base = r;
                        printf("%-9s %8zu %12.2f %12.2f %12.0f %14.2f\n", loads[l].name, sizes[i], r.ns / base.ns,
                                        r.steps, r.most_steps, r.grants);
                        ok = check(loads + l, sizes[i], &r) && ok;
                }
        }
        return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
