/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How long a job may be held: the bound of policy/floor.h, from the greatest number of jobs that ever were beside it
 * and beside each floor above it
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "policy-harness.h"

static void path_add(HarnessPath *path, const HarnessNode *node, uint64_t user) {
        path->node[path->n] = node;
        path->user[path->n++] = user;
}

static void path_add_nodes(HarnessPath *path, const HarnessNode *n) {
        if (!n)
                return;
        path_add_nodes(path, n->parent);
        path_add(path, n, 0);
}

static HarnessPath path_of(const Job *j) {
        HarnessPath path = {};

        path_add(&path, NULL, j->settings.party.top);
        path_add(&path, NULL, j->settings.party.owner);
        path_add_nodes(&path, j->node);
        path_add(&path, NULL, j->settings.party.user);
        return path;
}

static bool same_until(const HarnessPath *a, const HarnessPath *b, size_t n) {
        if (a->n < n || b->n < n)
                return false;
        for (size_t i = 0; i < n; i++)
                if (a->node[i] != b->node[i] || a->user[i] != b->user[i])
                        return false;
        return true;
}

static HarnessFloor *floor_get(Harness *h, const HarnessPath *path, size_t n) {
        for (size_t i = 0; i < h->n_floors; i++)
                if (h->floors[i].path.n == n && same_until(&h->floors[i].path, path, n))
                        return &h->floors[i];
        h->floors = reallocarray(h->floors, h->n_floors + 1, sizeof(*h->floors));
        assert_non_null(h->floors);
        h->floors[h->n_floors] = (HarnessFloor){.path = *path};
        h->floors[h->n_floors].path.n = n;
        return &h->floors[h->n_floors++];
}

/* Whether this is the first job below its floor at that depth. */
static bool is_first(const Harness *h, size_t i, const HarnessPath *path, size_t n) {
        for (size_t k = 0; k < i; k++) {
                HarnessPath other = path_of(h->jobs[k]);

                if (same_until(&other, path, n))
                        return false;
        }
        return true;
}

void harness_note_floors(Harness *h) {
        for (size_t i = 0; i < h->n_floors; i++)
                h->floors[i].n = 0;
        for (size_t i = 0; i < h->n; i++) {
                HarnessPath path = path_of(h->jobs[i]);

                for (size_t n = 0; n < path.n; n++)
                        floor_get(h, &path, n)->n += is_first(h, i, &path, n + 1);
                floor_get(h, &path, path.n)->n++;
        }
        for (size_t i = 0; i < h->n_floors; i++)
                h->floors[i].n_most = MAX(h->floors[i].n_most, h->floors[i].n);
}

uint64_t harness_longest_wait(Harness *h, const Job *j) {
        HarnessPath path = path_of(j);
        uint64_t turns = 1;

        for (size_t n = 0; n <= path.n; n++)
                turns *= floor_get(h, &path, n)->n_most;
        return (turns + 1) * h->config.starve_ns;
}
