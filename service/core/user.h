/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Users: what each has, for the quotas, and what it costs, for the budgets. Who has several uids is one of them
 *
 * What a client can repeat costs the service time, and the time is counted by user: many clients of one user share what
 * one would have. A user is there while it has anything or owes anything, so that nobody gets rid of a debt by
 * registering anew.
 */

#include "common/bucket.h"
#include "manager.h"

typedef enum UserCount {
        USER_CLIENTS,
        USER_QUEUES,
        USER_JOBS,    /* jobs and priority holds */
        USER_DEVICES, /* that it was the first to name */
        USER_PLACES,  /* what the groups of its clients may cost, in bytes */
        _USER_COUNT_MAX,
} UserCount;

/* What is budgeted. Room and cost of each are in the file that takes from it. */
typedef enum UserBudget {
        USER_EDGES,   /* wakes.c: wake-ups and edges */
        USER_SLOW,    /* crowd.c: system calls that a client can make long */
        USER_CHANGES, /* calls.c: time spent on calls that change something, and on what follows from them, */
        USER_READS,   /* and on those that only ask, */
        USER_ANSWERS, /* and the length of answers */
        USER_LOG,     /* user_may_log() */
        _USER_BUDGET_MAX,
} UserBudget;

struct User {
        uid_t uid;
        unsigned n[_USER_COUNT_MAX];
        Bucket budgets[_USER_BUDGET_MAX];

        /* crowd.h */
        unsigned n_suspected; /* calls to be measured */
        uint64_t call_ns;     /* mean of those measured */
        uint64_t owed_ns;     /* of those that were long, while it is not sure that somebody made them so */

        /* keep.h */
        Client *kept, *unkept; /* lists */
        unsigned n_kept;
        bool said_unkept; /* in Degraded */

        /* wakes.h */
        bool flooded;
        Client *silent; /* list */
        uint64_t silent_until, silent_ns;
        uint64_t flood_ended_at, flood_logged_at;
        User *flooded_prev, *flooded_next;
        bool log_is_full; /* and that was said */

        unsigned n_quick; /* quick.h: queues that are looked at */

        UT_hash_handle hh;
};

/* As which user a uid counts (subuid.h): what is taken below is taken from that one, and given back to the same,
 * whatever has changed since. */
uid_t user_of(const Manager *m, uid_t uid);

/* Finds or makes it; NULL: no memory. Who takes nothing from what is returned need not give it back: see user_gc(). */
User *user_get(Manager *m, uid_t uid);
User *user_find(const Manager *m, uid_t uid);

/* Forgets it when it neither has nor owes anything. */
void user_gc(Manager *m, User *u);
void users_free(Manager *m);

/* Counts one more. -EDQUOT when `limit` of them are there already, -ENOMEM. */
int user_take(Manager *m, uid_t uid, UserCount what, unsigned limit);
void user_give(Manager *m, uid_t uid, UserCount what);

/* *n of them become `to`, where that is no more than may be. */
int user_resize(Manager *m, uid_t uid, UserCount what, unsigned *n, unsigned to, unsigned limit);

/* How many it has. */
unsigned user_count(const Manager *m, uid_t uid, UserCount what);

/* What is budgeted of somebody's calls; NULL: there is no bound, it is root or the service's own user. */
Bucket *user_budget(Manager *m, uid_t uid, UserBudget budget);

/* Of one CPU, a user's changes may take a quarter, and so may its reads. A change may go on after its call. */
#define USER_CPU_COST 4U
void user_pay_change(Manager *m, uid_t uid, uint64_t now, uint64_t took_ns);

/* Before a message that users can have written as often as they like: 200 at once, and 5 a second. Beyond that the
 * journal would drop messages, and others' with them. Of any uid: a sub-uid's are its user's. */
bool user_may_log(Manager *m, uid_t uid);
