/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Selections
 */

#include "tools/exporter/selection.h"

#include <math.h>
#include <stdio.h>
#include <uthash.h>

#include "tools/exporter/label.h"

/* --- what is left out --- */

typedef struct Other {
        char *key;
        uint64_t last[_GROUP_COUNTER_MAX];
        uint64_t round;
        UT_hash_handle hh;
} Other;

_Static_assert((int) _DEVICE_COUNTER_MAX <= (int) _GROUP_COUNTER_MAX, "an Other has room for either");

struct Others {
        Other *all;
        uint64_t round; /* entries not seen in the last round are removed */
        uint64_t devices[_DEVICE_COUNTER_MAX], groups[_GROUP_COUNTER_MAX];
};

Others *others_new(void) {
        return calloc(1, sizeof(Others));
}

static void other_free(Others *o, Other *x) {
        HASH_DEL(o->all, x);
        free(x->key);
        free(x);
}

Others *others_free(Others *o) {
        Other *x, *tmp;

        if (!o)
                return NULL;
        HASH_ITER(hh, o->all, x, tmp)
                other_free(o, x);
        free(o);
        return NULL;
}

static int other_get(Others *o, const char *key, const uint64_t *now, size_t n, Other **ret) {
        Other *x;

        HASH_FIND_STR(o->all, key, x);
        if (!x) {
                x = calloc(1, sizeof(*x));
                if (!x)
                        return -ENOMEM;
                x->key = strdup(key);
                if (!x->key) {
                        free(x);
                        return -ENOMEM;
                }
                /* Only what the group adds from now on counts among "others": earlier values were in its own series. */
                memcpy(x->last, now, n * sizeof(*now));
                HASH_ADD_KEYPTR(hh, o->all, x->key, strlen(x->key), x);
        }
        *ret = x;
        return 0;
}

static int others_count(Others *o, const char *kind, const char *name, const char *device, const uint64_t *now,
                size_t n, uint64_t *sums) {
        _cleanup_free_ char *key = NULL;
        Other *x;

        if (asprintf(&key, "%s\n%s\n%s", kind, device, name) < 0)
                return -ENOMEM;
        int r = other_get(o, key, now, n, &x);
        if (r < 0)
                return r;
        for (size_t i = 0; i < n; i++) {
                if (now[i] != UNKNOWN)
                        sums[i] += now[i] >= x->last[i] ? now[i] - x->last[i] : now[i];
                x->last[i] = now[i];
        }
        x->round = o->round;
        return 0;
}

static void others_forget(Others *o) {
        Other *x, *tmp;

        HASH_ITER(hh, o->all, x, tmp)
                if (x->round != o->round)
                        other_free(o, x);
}

/* --- groups that are chosen --- */

/* The party whose places a group takes: one user's groups, or jobs, which every user can make. Empty: no party. */
static size_t party_length(const char *name) {
        static const char users[] = "/user.slice/user-";

        if (startswith(name, "job:"))
                return strlen("job:");
        const char *user = startswith(name, users);
        return user ? (size_t) (user - name) + strcspn(user, "/") : 0;
}

typedef struct Party {
        const char *name;
        size_t n;
        UT_hash_handle hh;
} Party;

static int party_count(Party **parties, const char *name, size_t length, size_t *ret) {
        Party *p;

        HASH_FIND(hh, *parties, name, length, p);
        if (!p) {
                p = calloc(1, sizeof(*p));
                if (!p)
                        return -ENOMEM;
                p->name = name;
                HASH_ADD_KEYPTR(hh, *parties, p->name, length, p);
        }
        *ret = ++p->n;
        return 0;
}

static void parties_free(Party *parties) {
        Party *p, *tmp;

        HASH_ITER(hh, parties, p, tmp) {
                HASH_DEL(parties, p);
                free(p);
        }
}

/* Whether another chosen group would get the same label. Only long names can, and only on purpose. */
static bool has_twin(const Snapshot *s, size_t i, const bool *chosen) {
        const SnapshotGroup *g = s->groups + i;

        if (strlen(g->name) <= LABEL_MAX)
                return false;
        for (size_t k = 0; k < s->n_groups; k++)
                if (chosen[k] && k != i && strlen(s->groups[k].name) > LABEL_MAX &&
                                streq(s->groups[k].device, g->device) && label_looks_same(s->groups[k].name, g->name))
                        return true;
        return false;
}

/* Chooses first within each user's fourth, then the others in their order. */
static int choose_groups(const Snapshot *s, size_t places, bool *chosen) {
        Party *parties = NULL;
        size_t n = 0, of_party = 0;
        int r = 0;

        for (size_t i = 0; i < s->n_groups && n < places && r >= 0; i++) {
                const char *name = s->groups[i].name;
                size_t length = party_length(name);

                if (length > 0)
                        r = party_count(&parties, name, length, &of_party);
                chosen[i] = r >= 0 && (length == 0 || of_party <= MAX(places / 4, (size_t) 1)) &&
                                !has_twin(s, i, chosen);
                n += chosen[i];
        }
        parties_free(parties);
        for (size_t i = 0; i < s->n_groups && n < places; i++)
                if (!chosen[i] && !has_twin(s, i, chosen)) {
                        chosen[i] = true;
                        n++;
                }
        return r;
}

/* Chooses real GPUs before devices that a client has made up. */
static void choose_devices(const Snapshot *s, size_t places, bool *chosen) {
        size_t n = 0;

        for (unsigned pass = 0; pass < 2; pass++)
                for (size_t i = 0; i < s->n_devices && n < places; i++)
                        if (!chosen[i] && (pass == 1 || startswith(s->devices[i].id, "pci:"))) {
                                chosen[i] = true;
                                n++;
                        }
}

/* --- sums --- */

static void sum_group(SnapshotGroup *sum, const SnapshotGroup *g) {
        sum->n_clients += g->n_clients;
        sum->n_queues += g->n_queues;
        sum->n_held += g->n_held;
        sum->held_us = MAX(sum->held_us, g->held_us);
}

static void sum_device(SnapshotDevice *sum, const SnapshotDevice *d) {
        sum->n_entities += d->n_entities;
        sum->n_ready += d->n_ready;
        sum->n_queues += d->n_queues;
        sum->n_unheld += d->n_unheld;
        for (size_t i = 0; i < _HOOKED_KIND_MAX; i++)
                sum->n_hooked[i] += d->n_hooked[i];
}

static int take_groups(const Snapshot *s, const bool *chosen, Others *others, Selection *ret) {
        for (size_t i = 0; i < s->n_groups; i++) {
                const SnapshotGroup *g = s->groups + i;

                if (chosen[i]) {
                        ret->groups[ret->n_groups++] = g;
                        continue;
                }
                ret->n_groups_left_out++;
                sum_group(&ret->other_groups, g);
                int r = others ? others_count(others, "group", g->name, g->device, g->counters, ELEMENTSOF(g->counters),
                                                 others->groups)
                               : 0;
                if (r < 0)
                        return r;
        }
        return 0;
}

static int take_devices(const Snapshot *s, const bool *chosen, Others *others, Selection *ret) {
        for (size_t i = 0; i < s->n_devices; i++) {
                const SnapshotDevice *d = s->devices + i;

                if (chosen[i]) {
                        ret->devices[ret->n_devices++] = d;
                        continue;
                }
                ret->n_devices_left_out++;
                sum_device(&ret->other_devices, d);
                int r = others ? others_count(others, "device", "", d->id, d->counters, ELEMENTSOF(d->counters),
                                                 others->devices)
                               : 0;
                if (r < 0)
                        return r;
        }
        return 0;
}

static void take_others(const Others *others, Selection *s) {
        SnapshotDevice *d = &s->other_devices;

        d->utilisation = UINT32_MAX;
        d->memory = d->memory_used = UNKNOWN;
        d->temperature = d->power = NAN;
        for (size_t i = 0; i < ELEMENTSOF(d->counters); i++)
                d->counters[i] = others ? others->devices[i] : UNKNOWN;
        for (size_t i = 0; i < ELEMENTSOF(s->other_groups.counters); i++)
                s->other_groups.counters[i] = others ? others->groups[i] : UNKNOWN;
}

void selection_done(Selection *s) {
        free(s->devices);
        free(s->groups);
        *s = (Selection){0};
}

int selection_make(const Snapshot *s, size_t max_series, Others *others, Selection *ret) {
        size_t room = max_series - SERIES_OF_REST - SERIES_OF_DEVICE - SERIES_OF_GROUP;
        size_t most = MAX(room / 4 / SERIES_OF_DEVICE, (size_t) 1), devices = MIN(s->n_devices, most);
        size_t groups = (room - devices * SERIES_OF_DEVICE) / SERIES_OF_GROUP;
        _cleanup_free_ bool *device_chosen = calloc(s->n_devices + 1, sizeof(bool)),
                            *group_chosen = calloc(s->n_groups + 1, sizeof(bool));
        Selection made = {
                        .devices = calloc(s->n_devices + 1, sizeof(void *)),
                        .groups = calloc(s->n_groups + 1, sizeof(void *)),
        };

        int r = device_chosen && group_chosen && made.devices && made.groups ? 0 : -ENOMEM;
        if (others)
                others->round++;
        if (r >= 0)
                r = choose_groups(s, groups, group_chosen);
        if (r >= 0) {
                choose_devices(s, devices, device_chosen);
                r = take_devices(s, device_chosen, others, &made);
        }
        if (r >= 0)
                r = take_groups(s, group_chosen, others, &made);
        if (r < 0) {
                selection_done(&made);
                return r;
        }
        if (others)
                others_forget(others);
        take_others(others, &made);
        *ret = made;
        return 0;
}
