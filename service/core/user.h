/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * User: quotas and budgets of one user, who may have several uids
 *
 * Everything that a client can repeat costs the service time, which is charged to the user: many clients of one user
 * share the budget of one. A user is kept while it has any object or debt, so that registering again does not clear a
 * debt.
 */

#include "common/bucket.h"
#include "manager.h"

typedef enum UserCount {
        USER_CLIENTS,
        USER_QUEUES,
        USER_JOBS,    /* jobs and claims */
        USER_DEVICES, /* devices that this user named first */
        USER_PLACES,  /* bytes of the groups of its clients */
        _USER_COUNT_MAX,
} UserCount;

/* Budgets. Size and rate of each are in the file that charges it. */
typedef enum UserBudget {
        USER_EDGES,   /* wakes.c: wake-ups and edges */
        USER_SLOW,    /* crowd.c: system calls that a client can make long */
        USER_CHANGES, /* calls.c: time of calls that change something, and of their consequences */
        USER_READS,   /* calls.c: time of calls that only read */
        USER_ANSWERS, /* calls.c: length of answers */
        USER_LOG,     /* user_may_log() */
        _USER_BUDGET_MAX,
} UserBudget;

struct User {
        uid_t uid;
        unsigned n[_USER_COUNT_MAX];
        Bucket budgets[_USER_BUDGET_MAX];

        /* crowd.h */
        unsigned n_suspected; /* number of calls that will still be measured */
        uint64_t call_ns;     /* mean of those measured */
        uint64_t owed_ns;     /* time of long calls, while it is not certain that the client made them long */

        /* keep.h */
        Client *kept, *unkept; /* lists */
        unsigned n_kept;
        bool said_unkept; /* Degraded names it */

        /* wakes.h */
        bool flooded;
        Client *silent; /* list */
        uint64_t silent_until, silent_ns;
        uint64_t flood_ended_at, flood_logged_at;
        User *flooded_prev, *flooded_next;
        bool log_is_full; /* USER_LOG is used up, and that was logged */

        unsigned n_quick; /* quick.h: polled queues */

        UT_hash_handle hh;
};

/* The user that a uid counts as (subuid.h). The functions below take from that user, and give back to the same one,
 * even if the mapping has changed since. */
uid_t user_of(const Manager *m, uid_t uid);

/* Finds or makes the user; NULL: no memory. A caller that charges nothing need not give it back: see user_gc(). */
User *user_get(Manager *m, uid_t uid);
User *user_find(const Manager *m, uid_t uid);

/* Frees the user when it has neither objects nor debts. */
void user_gc(Manager *m, User *u);
void users_free(Manager *m);

/* Counts one more `what`. -EDQUOT: the user has `limit` already; -ENOMEM. */
int user_take(Manager *m, uid_t uid, UserCount what, unsigned limit);
void user_give(Manager *m, uid_t uid, UserCount what);

/* Changes the user's count by `to` - *n and sets *n to `to`. -EDQUOT: that would exceed `limit`. */
int user_resize(Manager *m, uid_t uid, UserCount what, unsigned *n, unsigned to, unsigned limit);

/* The budget of a uid's user; NULL: unlimited, for root and the service's own user. */
Bucket *user_budget(Manager *m, uid_t uid, UserBudget budget);

/* A user's changes may take 1/USER_CPU_COST of one CPU, and so may its reads. Charges work that follows a change's
 * call. */
#define USER_CPU_COST 4U
void user_pay_change(Manager *m, uid_t uid, uint64_t now, uint64_t took_ns);

/* Asked before a log message that users can cause at will: allows a user 200 at once, and 5 a second. Beyond that the
 * journal would drop messages, other users' included. Takes any uid: a sub-uid counts as its user. */
bool user_may_log(Manager *m, uid_t uid);
