/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Parties; see parties.h.
 */

#include <utlist.h>

#include "parties.h"

static Party *party_of(AvlNode *n) {
        return container_of(n, Party, known);
}

static bool is_before(const PolicyParty *a, const Party *b) {
        return a->top < b->top || (a->top == b->top && a->owner < b->owner);
}

static bool is_after(const PolicyParty *a, const Party *b) {
        return a->top > b->top || (a->top == b->top && a->owner > b->owner);
}

static bool known_before(const AvlNode *a, const AvlNode *b) {
        const Party *x = container_of(a, const Party, known), *y = container_of(b, const Party, known);

        return x->top < y->top || (x->top == y->top && x->owner < y->owner);
}

static void known_update(AvlNode *n) {
}

void parties_init(Policy *p) {
        p->parties = (Avl){.before = known_before, .update = known_update};
}

static void party_back(Policy *p, Party *party) {
        DL_DELETE(p->gone_parties, party);
        p->n_gone_parties--;
}

static void party_forget(Policy *p, Party *party) {
        party_back(p, party);
        avl_remove(&p->parties, &party->known);
        free(party);
}

void parties_forget(Policy *p) {
        while (p->gone_parties)
                party_forget(p, p->gone_parties);
}

static void parties_look(Policy *p) {
        Party *first;

        while ((first = p->gone_parties) &&
                        (p->n_gone_parties > PARTY_GONE_MAX || ns_sub(p->now_ns, first->gone_ns) > PARTY_REMEMBER_NS))
                party_forget(p, first);
}

static Party *party_find(const Policy *p, const PolicyParty *of) {
        AvlNode *n = p->parties.root;

        while (n && (is_before(of, party_of(n)) || is_after(of, party_of(n))))
                n = is_before(of, party_of(n)) ? n->left : n->right;
        return n ? party_of(n) : NULL;
}

bool party_get(Policy *p, const PolicyParty *of, Party **ret) {
        Party *party = NULL;

        if (p->ordering->parties) {
                parties_look(p);
                party = party_find(p, of);
                if (party && party->order.n == 0)
                        party_back(p, party);
                if (!party) {
                        party = calloc(1, sizeof(*party));
                        if (!party)
                                return false;
                        party->top = of->top;
                        party->owner = of->owner;
                        avl_insert(&p->parties, &party->known);
                }
                p->order.n_parties += party->order.n++ == 0;
        }
        *ret = party;
        return true;
}

Party *party_put(Policy *p, Party *party) {
        if (!party || --party->order.n > 0)
                return NULL;
        p->order.n_parties--;
        party->gone_ns = p->now_ns;
        DL_APPEND(p->gone_parties, party);
        p->n_gone_parties++;
        parties_look(p);
        return NULL;
}
