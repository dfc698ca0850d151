/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Users: what each uid has, for the quotas
 */

#include "manager.h"

typedef enum UserCount {
        USER_CLIENTS,
        USER_QUEUES,
        USER_JOBS, /* jobs and priority holds */
        _USER_COUNT_MAX,
} UserCount;

struct User {
        uid_t uid;
        unsigned n[_USER_COUNT_MAX];
        UT_hash_handle hh;
};

/* Counts one more. -EDQUOT when `limit` of them are there already, -ENOMEM. */
int user_take(Manager *m, uid_t uid, UserCount what, unsigned limit);
void user_give(Manager *m, uid_t uid, UserCount what);
