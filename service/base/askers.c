/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Users and their questions
 */

#include <errno.h>
#include <stdlib.h>
#include <uthash.h>

#include "askers.h"

/* A user, kept while a question of the user's is open, and until the user may ask the next one. */
typedef struct Asker {
        uid_t user; /* key */
        unsigned n_open[2];
        uint64_t rests_until;
        UT_hash_handle hh;
} Asker;

struct Askers {
        Asker *users;
        unsigned n_open[2];
};

static const unsigned open_per_user_max[2] = {ASKER_QUESTIONS_MAX, ASKER_DIALOGS_MAX};

static Asker *asker_find(const Askers *a, uid_t user) {
        Asker *k = NULL;
        HASH_FIND(hh, a->users, &user, sizeof(user), k);
        return k;
}

static bool asker_is_over(const Asker *k, uint64_t now) {
        return k->n_open[false] == 0 && k->n_open[true] == 0 && k->rests_until <= now;
}

/* Few users have asked in the last second, so a walk over all is cheap. */
static void forget(Askers *a, uint64_t now) {
        Asker *k, *tmp;

        HASH_ITER(hh, a->users, k, tmp) {
                if (!asker_is_over(k, now))
                        continue;
                HASH_DEL(a->users, k);
                free(k);
        }
}

uint64_t askers_when(const Askers *a, uid_t user, bool dialog, uint64_t now) {
        if (a->n_open[dialog] >= ASKERS_OPEN_MAX)
                return UINT64_MAX;
        const Asker *k = asker_find(a, user);
        if (!k)
                return now;
        return k->n_open[dialog] >= open_per_user_max[dialog] ? UINT64_MAX : MAX(k->rests_until, now);
}

int askers_begin(Askers *a, uid_t user, bool dialog, uint64_t now) {
        forget(a, now);
        Asker *k = asker_find(a, user);
        if (!k) {
                k = calloc(1, sizeof(Asker));
                if (!k)
                        return -ENOMEM;
                k->user = user;
                HASH_ADD(hh, a->users, user, sizeof(k->user), k);
        }
        k->n_open[dialog]++;
        a->n_open[dialog]++;
        return 0;
}

static uint64_t rest_for(bool dialog, uint64_t took) {
        if (took <= ASKER_REST_MAX_NS)
                return took;
        return dialog ? 0 : ASKER_REST_MAX_NS;
}

void askers_end(Askers *a, uid_t user, bool dialog, uint64_t now, uint64_t took) {
        Asker *k = asker_find(a, user);

        if (!k || k->n_open[dialog] == 0)
                return;
        k->n_open[dialog]--;
        a->n_open[dialog]--;
        k->rests_until = MAX(k->rests_until, now + rest_for(dialog, took));
}

int askers_new(Askers **ret) {
        Askers *a = calloc(1, sizeof(Askers));
        if (!a)
                return -ENOMEM;
        *ret = a;
        return 0;
}

Askers *askers_free(Askers *a) {
        Asker *k, *tmp;

        if (!a)
                return NULL;
        HASH_ITER(hh, a->users, k, tmp) {
                HASH_DEL(a->users, k);
                free(k);
        }
        free(a);
        return NULL;
}
