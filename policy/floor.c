/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The floor: floor.h says whose turn it is and how long an entity waits for its turn.
 */

#include <utlist.h>

#include "floor.h"

/* --- the floors right below one --- */

static Floor *floor_of(AvlNode *n) {
        return n ? container_of(n, Floor, order) : NULL;
}

static bool turn_before(const AvlNode *a, const AvlNode *b) {
        return container_of(a, const Floor, order)->turn < container_of(b, const Floor, order)->turn;
}

static void turn_update(AvlNode *n) {
        Floor *f = floor_of(n);
        const Floor *left = floor_of(n->left), *right = floor_of(n->right);

        f->longest_ns = f->since_ns;
        if (left)
                f->longest_ns = MIN(f->longest_ns, left->longest_ns);
        if (right)
                f->longest_ns = MIN(f->longest_ns, right->longest_ns);
}

static bool key_before(FloorKey a, FloorKey b) {
        return a.node < b.node || (a.node == b.node && a.user < b.user);
}

static bool known_before(const AvlNode *a, const AvlNode *b) {
        return key_before(
                        container_of(a, const Floor, known_order)->key, container_of(b, const Floor, known_order)->key);
}

static void known_update(AvlNode *n) {
}

static Floor floor_make(FloorKey key, PolicyNode *node, Floor *parent) {
        return (Floor){
                        .key = key,
                        .node = node,
                        .parent = parent,
                        .since_ns = NSEC_INFINITY,
                        .waiting = {.before = turn_before, .update = turn_update},
                        .known = {.before = known_before, .update = known_update},
        };
}

static Floor *floor_find(const Floor *f, FloorKey key) {
        AvlNode *n = f->known.root;

        while (n) {
                Floor *below = container_of(n, Floor, known_order);

                if (key_before(key, below->key))
                        n = n->left;
                else if (key_before(below->key, key))
                        n = n->right;
                else
                        return below;
        }
        return NULL;
}

void floor_init(Policy *p) {
        p->floor = floor_make((FloorKey){}, NULL, NULL);
}

/* Takes over the reference to `parent`. */
static Floor *floor_get_below(Policy *p, Floor *parent, FloorKey key, PolicyNode *node) {
        Floor *f;

        if (!parent)
                return NULL;
        f = floor_find(parent, key);
        if (f) {
                f->n_refs++;
                floor_put(parent);
                return f;
        }
        f = malloc(sizeof(*f));
        if (!f) {
                floor_put(parent);
                return NULL;
        }
        *f = floor_make(key, node, parent);
        f->n_refs = 1;
        f->turn = p->floor_turn++;
        avl_insert(&parent->known, &f->known_order);
        if (node)
                DL_APPEND2(node->floors, f, node_prev, node_next);
        return f;
}

static Floor *floor_get_node(PolicyNode *n, const PolicyParty *party) {
        Policy *p = n->policy;
        Floor *f;

        if (n->parent) {
                f = floor_get_node(n->parent, party);
                return floor_get_below(p, f, (FloorKey){.node = n->id}, n);
        }
        p->floor.n_refs++;
        f = floor_get_below(p, &p->floor, (FloorKey){.user = party->top}, NULL);
        return floor_get_below(p, f, (FloorKey){.user = party->owner}, NULL);
}

Floor *floor_get(PolicyNode *n, const PolicyParty *party) {
        Floor *f = floor_get_node(n, party);

        return floor_get_below(n->policy, f, (FloorKey){.user = party->user}, NULL);
}

void floor_put(Floor *f) {
        while (--f->n_refs == 0 && f->parent) {
                Floor *parent = f->parent;

                avl_remove(&parent->known, &f->known_order);
                if (f->node)
                        DL_DELETE2(f->node->floors, f, node_prev, node_next);
                free(f);
                f = parent;
        }
}

/* --- held entities --- */

/* Returns since when the longest held entity below the floor is held. */
static uint64_t floor_since(const Floor *f) {
        const Floor *top = floor_of(f->waiting.root);
        uint64_t since_ns = top ? top->longest_ns : NSEC_INFINITY;

        if (f->node && f->node->stopped)
                return NSEC_INFINITY;
        return f->held ? MIN(since_ns, f->held->held_since_ns) : since_ns;
}

static void floor_leave(Floor *f) {
        if (f->since_ns != NSEC_INFINITY)
                avl_remove(&f->parent->waiting, &f->order);
}

static void floor_join(Floor *f) {
        if (f->since_ns != NSEC_INFINITY)
                avl_insert(&f->parent->waiting, &f->order);
}

/* Updates the floors above, up to the first that does not change. */
static void floor_changed(Floor *f) {
        for (; f->parent; f = f->parent) {
                uint64_t since_ns = floor_since(f);

                if (since_ns == f->since_ns)
                        return;
                floor_leave(f);
                f->since_ns = since_ns;
                floor_join(f);
        }
}

void floor_node_changed(PolicyNode *n) {
        Floor *f;

        DL_FOREACH2(n->floors, f, node_next)
                floor_changed(f);
}

void entity_hold_begin(PolicyEntity *e) {
        e->held_since_ns = e->policy->now_ns;
        e->held = true;
        DL_APPEND2(e->floor->held, e, held_prev, held_next);
        floor_changed(e->floor);
}

void entity_hold_end(PolicyEntity *e) {
        if (!e->held)
                return;
        e->held = false;
        DL_DELETE2(e->floor->held, e, held_prev, held_next);
        floor_changed(e->floor);
}

bool entity_is_starved(const PolicyEntity *e) {
        const Policy *p = e->policy;

        return core_has_floor(p) && e->ready && e->grant.verdict == VERDICT_HOLD &&
                        p->now_ns - e->held_since_ns >= p->config.starve_ns;
}

uint64_t floor_longest(const Policy *p) {
        return floor_since(&p->floor);
}

/* --- turns --- */

/* Returns the first in the order with an entity below that has been held for so long. */
static const Floor *floor_next_below(const Floor *f, uint64_t until_ns) {
        const Floor *n = floor_of(f->waiting.root);

        while (n) {
                const Floor *left = floor_of(n->order.left);

                if (left && left->longest_ns <= until_ns)
                        n = left;
                else if (n->since_ns <= until_ns)
                        return n;
                else
                        n = floor_of(n->order.right);
        }
        return NULL;
}

PolicyEntity *floor_next(Policy *p, uint64_t until_ns) {
        const Floor *f = &p->floor;

        if (floor_longest(p) > until_ns)
                return NULL;
        while (f && !f->held)
                f = floor_next_below(f, until_ns);
        return f ? f->held : NULL;
}

void floor_take_turn(PolicyEntity *e) {
        Policy *p = e->policy;

        for (Floor *f = e->floor; f->parent; f = f->parent) {
                floor_leave(f);
                f->turn = p->floor_turn++;
                floor_join(f);
        }
}
