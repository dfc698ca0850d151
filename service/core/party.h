/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Parties: among whom is divided what nobody may buy by starting more
 *
 * Turns of the starvation floor (policy/floor.h), and votes on what a device's driver takes (costs.h). A party is a
 * user's slice, user-UID.slice in user.slice, with everything in it, whatever uids that runs under; or any other cgroup
 * at the top of the tree with everything in it: system.slice, a slice of the administrator's, that of an engine. Nobody
 * but root makes either.
 *
 * What runs outside of the users' slices belongs to a service of the system, an engine or a container, and may be
 * started there for several users: in such a party, groups that are of one user alone (user_of() in user.h) are his,
 * and all others are together; and in a group, clients with settings of their own are their users'. A group that has
 * had clients of several users stays so until its last one leaves: a stranger who comes and goes moves nobody twice.
 *
 * Pure.
 */

#include <sys/types.h>

#include "policy/policy.h"

/* No user: a group that has clients of several. */
#define PARTY_SEVERAL UINT64_MAX

/* In `cgroup`, in a group that is of `owner` alone (a user, or PARTY_SEVERAL), what is of `user` (likewise). */
PolicyParty party_make(const char *cgroup, uint64_t owner, uint64_t user);

/* The same party and owner, for votes. */
static inline bool party_is_same_owner(const PolicyParty *a, const PolicyParty *b) {
        return a->top == b->top && a->owner == b->owner;
}

/* Of whom a group is after one of user `uid` has joined `n` others. */
uint64_t party_join(uint64_t owner, unsigned n, uid_t uid);
