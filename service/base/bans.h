/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Bans: uids that may not connect to a socket for a while
 *
 * Connections of all users wait in one queue in the kernel, and to refuse one costs as much as to let it in. A user who
 * connects faster than the service can refuse makes all others wait. So the kernel refuses that user: the socket has an
 * access control list (acl(5)), in which a banned uid has an entry without permissions. Then connect() fails with
 * EACCES, and costs the service nothing.
 *
 * A user has at most BANS_USER_MAX entries, for sub-uids; further uids of the user are not banned. Root and the
 * socket's owner pass every list, and cannot be banned. If an administrator has given the socket a list, no user is
 * banned.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/macro.h"

#define BANS_MAX      256U /* some file systems have room for 500 */
#define BANS_USER_MAX 64U

typedef struct Ban {
        uid_t uid, user;
        uint64_t until;
} Ban;

typedef struct Bans {
        int fd; /* the socket's file; negative: there is none, and no user can be banned */
        unsigned n;
        Ban all[BANS_MAX];
} Bans;

/* `fd` listens. */
void bans_init(Bans *b, int fd);
void bans_done(Bans *b);

/* Returns whether the uid is newly banned. No uid can be banned on a file system without such lists. */
bool bans_add(Bans *b, uid_t uid, uid_t user, uint64_t until);

bool bans_has(const Bans *b, uid_t uid);

/* Ends the bans whose time is over. */
void bans_expire(Bans *b, uint64_t now);
