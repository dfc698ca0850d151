/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Users
 */

#include "user.h"

int user_take(Manager *m, uid_t uid, UserCount what, unsigned limit) {
        User *u;

        HASH_FIND(hh, m->users, &uid, sizeof(uid), u);
        if (u && u->n[what] >= limit)
                return -EDQUOT;
        if (limit == 0)
                return -EDQUOT;
        if (!u) {
                u = calloc(1, sizeof(*u));
                if (!u)
                        return -ENOMEM;
                u->uid = uid;
                HASH_ADD(hh, m->users, uid, sizeof(u->uid), u);
        }
        u->n[what]++;
        return 0;
}

void user_give(Manager *m, uid_t uid, UserCount what) {
        User *u;

        HASH_FIND(hh, m->users, &uid, sizeof(uid), u);
        if (!u || u->n[what] == 0)
                return;
        u->n[what]--;
        for (unsigned i = 0; i < _USER_COUNT_MAX; i++)
                if (u->n[i] > 0)
                        return;
        HASH_DEL(m->users, u);
        free(u);
}
