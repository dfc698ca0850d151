/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Users
 */

#include <unistd.h>

#include "common/time-util.h"
#include "service/base/log.h"
#include "service/base/subuid-file.h"
#include "user.h"

#define LOG_COST_NS (200 * NSEC_PER_MSEC)
#define LOG_ROOM_NS (200 * LOG_COST_NS)

uid_t user_of(const Manager *m, uid_t uid) {
        return subuid_file_user(m->subuids, uid);
}

User *user_find(const Manager *m, uid_t uid) {
        User *u;

        HASH_FIND(hh, m->users, &uid, sizeof(uid), u);
        return u;
}

static bool user_has_anything(const User *u) {
        for (unsigned i = 0; i < _USER_COUNT_MAX; i++)
                if (u->n[i] > 0)
                        return true;
        return false;
}

static bool user_owes_anything(const User *u, uint64_t now) {
        for (unsigned i = 0; i < _USER_BUDGET_MAX; i++)
                if (!bucket_is_empty(u->budgets + i, now))
                        return true;
        return false;
}

static void user_forget(Manager *m, User *u) {
        HASH_DEL(m->users, u);
        free(u);
}

void user_gc(Manager *m, User *u) {
        if (!user_has_anything(u) && !user_owes_anything(u, now_ns()))
                user_forget(m, u);
}

/* A user with a debt stays until the debt is paid. */
static void users_gc(Manager *m) {
        User *u, *tmp;

        HASH_ITER(hh, m->users, u, tmp)
                user_gc(m, u);
}

void users_free(Manager *m) {
        User *u, *tmp;

        HASH_ITER(hh, m->users, u, tmp)
                user_forget(m, u);
}

User *user_get(Manager *m, uid_t uid) {
        User *u = user_find(m, uid);

        if (u)
                return u;
        users_gc(m);
        u = calloc(1, sizeof(*u));
        if (!u)
                return NULL;
        u->uid = uid;
        HASH_ADD(hh, m->users, uid, sizeof(u->uid), u);
        return u;
}

static int user_add(Manager *m, uid_t uid, UserCount what, unsigned n, unsigned limit) {
        User *u = user_find(m, uid);

        if (n > limit || (u && u->n[what] > limit - n))
                return -EDQUOT;
        if (!u)
                u = user_get(m, uid);
        if (!u)
                return -ENOMEM;
        u->n[what] += n;
        return 0;
}

static void user_subtract(Manager *m, uid_t uid, UserCount what, unsigned n) {
        User *u = user_find(m, uid);

        if (!u || u->n[what] == 0)
                return;
        u->n[what] -= MIN(n, u->n[what]);
        user_gc(m, u);
}

int user_take(Manager *m, uid_t uid, UserCount what, unsigned limit) {
        return user_add(m, uid, what, 1, limit);
}

void user_give(Manager *m, uid_t uid, UserCount what) {
        user_subtract(m, uid, what, 1);
}

int user_resize(Manager *m, uid_t uid, UserCount what, unsigned *n, unsigned to, unsigned limit) {
        int r = to > *n ? user_add(m, uid, what, to - *n, limit) : 0;

        if (r < 0)
                return r;
        if (to < *n)
                user_subtract(m, uid, what, *n - to);
        *n = to;
        return 0;
}

Bucket *user_budget(Manager *m, uid_t uid, UserBudget budget) {
        if (uid == 0 || uid == geteuid())
                return NULL;
        User *u = user_get(m, uid);
        return u ? u->budgets + budget : NULL;
}

void user_pay_change(Manager *m, uid_t uid, uint64_t now, uint64_t took_ns) {
        Bucket *b = user_budget(m, uid, USER_CHANGES);

        if (b)
                bucket_take(b, now, took_ns * USER_CPU_COST);
}

bool user_may_log(Manager *m, uid_t uid) {
        User *u = user_get(m, user_of(m, uid));
        uint64_t now = now_ns();

        if (!u)
                return true;
        if (bucket_is_empty(u->budgets + USER_LOG, now))
                u->log_is_full = false;
        if (bucket_has_credit(u->budgets + USER_LOG, now, LOG_ROOM_NS)) {
                bucket_take(u->budgets + USER_LOG, now, LOG_COST_NS);
                return true;
        }
        if (!u->log_is_full)
                log_notice("User %u causes more messages than are written down", (unsigned) u->uid);
        u->log_is_full = true;
        return false;
}
