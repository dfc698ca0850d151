/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Bans: who may not connect to a socket for a while
 *
 * Connections wait in the kernel in one row, whoever makes them, and one that is refused costs as much as one that is
 * let in. A user who makes more of them than can be refused has all others wait behind him. So the kernel refuses him:
 * the socket has an access control list (acl(5)), in which a banned uid has an entry without permissions. His connect()
 * fails with EACCES, and is no work of ours.
 *
 * A user has BANS_USER_MAX entries at most, for his sub-uids; uids beyond that are not banned. Root cannot be: it
 * passes every list. Nor can the socket's owner. Where an administrator has given the socket a list, nobody is banned.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/macro.h"

#define BANS_MAX      512U
#define BANS_USER_MAX 64U

typedef struct Ban {
        uid_t uid, user;
        uint64_t until;
} Ban;

typedef struct Bans {
        int fd; /* the socket's file; negative: where there is none, nobody is banned */
        unsigned n;
        Ban all[BANS_MAX];
} Bans;

/* `fd` listens. */
void bans_init(Bans *b, int fd);
void bans_done(Bans *b);

/* Whether the uid is newly banned. A file system without such lists bans nobody. */
bool bans_add(Bans *b, uid_t uid, uid_t user, uint64_t until);

bool bans_has(const Bans *b, uid_t uid);

/* Lets those connect again whose time is over. */
void bans_expire(Bans *b, uint64_t now);
