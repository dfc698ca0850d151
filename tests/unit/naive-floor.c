/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The oracle's floor: the next turn, by striking out candidates level by level
 */

#include "naive-fair.h"

static void path_add(FloorPath *path, uint64_t node, uint64_t user) {
        path->node[path->n] = node;
        path->user[path->n++] = user;
}

static void path_add_nodes(FloorPath *path, const PolicyNode *n) {
        if (!n->parent)
                return;
        path_add_nodes(path, n->parent);
        path_add(path, n->id + 1, 0);
}

static FloorPath path_of(const PolicyEntity *e) {
        FloorPath path = {};

        path_add(&path, 0, e->party.top);
        path_add(&path, 0, e->party.owner);
        path_add_nodes(&path, e->node);
        path_add(&path, 0, e->party.user);
        return path;
}

static bool same_until(const FloorPath *a, const FloorPath *b, size_t n) {
        if (a->n < n || b->n < n)
                return false;
        for (size_t i = 0; i < n; i++)
                if (a->node[i] != b->node[i] || a->user[i] != b->user[i])
                        return false;
        return true;
}

static FloorPlace *find_place(const Policy *p, const FloorPath *path, size_t n) {
        for (size_t i = 0; i < p->n_floor; i++)
                if (p->floor[i].path.n == n && same_until(&p->floor[i].path, path, n))
                        return &p->floor[i];
        return NULL;
}

void naive_floor_note(PolicyEntity *e) {
        Policy *p = e->p;
        FloorPath path = path_of(e);

        for (size_t n = 1; n <= path.n; n++) {
                if (find_place(p, &path, n))
                        continue;
                FloorPlace *floor = reallocarray(p->floor, p->n_floor + 1, sizeof(*floor));
                if (!floor)
                        abort();
                p->floor = floor;
                p->floor[p->n_floor] = (FloorPlace){.path = path, .turn = p->order++};
                p->floor[p->n_floor++].path.n = n;
        }
        naive_floor_forget(p);
}

void naive_floor_forget(Policy *p) {
        for (size_t i = p->n_floor; i-- > 0;) {
                bool any = false;

                FOR_EACH(p, e) {
                        FloorPath path = path_of(e);

                        any = any || same_until(&path, &p->floor[i].path, p->floor[i].path.n);
                }
                if (!any)
                        p->floor[i] = p->floor[--p->n_floor];
        }
}

void naive_floor_change(PolicyEntity *e, const PolicyParty *to) {
        if (e->party.top == to->top && e->party.owner == to->owner && e->party.user == to->user)
                return;
        e->party = *to;
        naive_floor_note(e);
        if (e->ready && e->grant.verdict == VERDICT_HOLD) {
                e->held_order = e->p->order++;
                e->held_since = e->p->now;
        }
}

static bool is_starved(const PolicyEntity *e, uint64_t until) {
        return e->ready && e->grant.verdict == VERDICT_HOLD && !e->chosen && !naive_is_out(e->node) &&
                        e->held_since <= until;
}

PolicyEntity *naive_floor_next(const Policy *p, uint64_t until) {
        FloorPath way = {};
        PolicyEntity *best = NULL;

        for (bool deeper = true; deeper;) {
                const FloorPlace *next = NULL;

                FOR_EACH(p, e) {
                        FloorPath path = path_of(e);

                        if (!is_starved(e, until) || !same_until(&path, &way, way.n) || path.n == way.n)
                                continue;
                        const FloorPlace *place = find_place(p, &path, way.n + 1);
                        if (!next || place->turn < next->turn)
                                next = place;
                }
                deeper = next != NULL;
                if (next)
                        way = next->path;
        }
        FOR_EACH(p, e) {
                FloorPath path = path_of(e);

                if (is_starved(e, until) && same_until(&path, &way, way.n) &&
                                (!best || e->held_order < best->held_order))
                        best = e;
        }
        return best;
}

void naive_floor_take_turn(PolicyEntity *e) {
        FloorPath path = path_of(e);

        for (size_t n = 1; n <= path.n; n++)
                find_place(e->p, &path, n)->turn = e->p->order++;
}
