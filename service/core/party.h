/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Party: the owner among whom turns and votes are divided, so that no user gets more by starting more processes
 *
 * Parties divide the turns of the starvation floor (policy/floor.h), and the votes on a driver's costs (costs.h). A
 * party is a user's slice, user-UID.slice in user.slice, with everything in it, under any uid; or any other cgroup at
 * the top of the tree with everything in it: system.slice, a slice of the administrator's, that of an engine. Only root
 * can make either.
 *
 * What runs outside of the users' slices belongs to a service of the system, an engine or a container, and may be
 * started there for several users: In such a party, a group with clients of one user only (user_of() in user.h) is
 * owned by that user, and all other groups have one common owner; within a group, clients with settings of their own
 * are owned by their users. A group that has had clients of several users stays in common until its last client leaves,
 * so that a stranger's visit does not move the group twice.
 *
 * Pure.
 */

#include <sys/types.h>

#include "policy/policy.h"

/* Owner of groups that have clients of several users. */
#define PARTY_SEVERAL UINT64_MAX

/* The party of clients of `user` in a group of `owner` in `cgroup`. Owner and user are uids, or PARTY_SEVERAL. */
PolicyParty party_make(const char *cgroup, uint64_t owner, uint64_t user);

/* Whether both have the same top and owner, and so share a vote. */
static inline bool party_is_same_owner(const PolicyParty *a, const PolicyParty *b) {
        return a->top == b->top && a->owner == b->owner;
}

/* The owner of a group of `owner` with `n` clients after one of user `uid` has joined. */
uint64_t party_join(uint64_t owner, unsigned n, uid_t uid);
