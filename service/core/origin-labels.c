/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Labels of an origin
 */

#include <utlist.h>

#include "cgroup/cgroup-attr.h"
#include "common/parse-util.h"
#include "origin-labels.h"

static void label_free(OriginLabel *l) {
        free(l->key);
        free(l->value);
        free(l);
}

void origin_labels_free(OriginLabel *l) {
        while (l) {
                OriginLabel *next = l->next;

                label_free(l);
                l = next;
        }
}

bool origin_take_label(Origin *o, const char *key, const char *value) {
        const char *given = startswith(key, CGROUP_ATTR_LABEL);
        const char *name = given ?: startswith(key, CGROUP_ATTR_CLAIM);
        const OriginLabel *i;
        int n;

        if (!name)
                return false;
        LL_COUNT(o->labels, i, n);
        OriginLabel *l = (unsigned) n < MATCH_LABELS_MAX && string_is_printable(name) ? calloc(1, sizeof(*l)) : NULL;
        if (!l)
                return true;
        *l = (OriginLabel){.key = strdup(name), .value = strdup(value), .claimed = !given};
        if (!l->key || !l->value)
                label_free(l);
        else
                LL_APPEND(o->labels, l);
        return true;
}

/* Compares two lists in order: the kernel lists attributes in the order in which they were made. */
bool origin_labels_are_equal(const OriginLabel *a, const OriginLabel *b) {
        for (; a && b; a = a->next, b = b->next)
                if (a->claimed != b->claimed || !streq(a->key, b->key) || !streq(a->value, b->value))
                        return false;
        return !a && !b;
}

void origin_add_labels(const Origin *o, MatchFacts *facts) {
        const OriginLabel *l;

        for (; o; o = o->parent)
                LL_FOREACH(o->labels, l)
                        match_facts_add_label(facts, l->key, l->value);
}

void origin_add_trusted_labels(const Origin *o, size_t named, MatchFacts *facts) {
        const OriginLabel *l;

        for (; o; o = o->parent)
                if (o->owner == ORIGIN_OWNER_ROOT && strlen(o->path) <= named)
                        LL_FOREACH(o->labels, l)
                                if (!l->claimed)
                                        match_facts_add_label(facts, l->key, l->value);
}
