/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Player: makes the calls of a tape again
 *
 * A player makes a tape's calls of new instances of the policies that it names, and compares the decisions with the
 * recorded ones: the grants in their order, the time of the next dispatch, and the usage. A difference means that
 * another version of xsched made the tape.
 *
 * Tapes are not trusted: impossible records are refused with -EBADMSG.
 */

#include <uthash.h>

#include "policy/policy.h"
#include "record.h"

typedef struct Player Player;
typedef struct PlayerDevice PlayerDevice;
typedef struct PlayerEntity PlayerEntity;
typedef struct PlayerNode PlayerNode;

struct PlayerNode {
        uint64_t id;
        PlayerNode *parent; /* NULL: the root */
        PlayerDevice *device;
        PolicyNode *node;
        PolicyNodeSettings settings; /* without the name */
        char *name;                  /* NULL: none */
        size_t n_below;
        UT_hash_handle hh;
};

struct PlayerEntity {
        uint64_t id;
        PlayerDevice *device;
        PlayerNode *node; /* NULL: the root */
        PolicyEntity *entity;
        PolicySettings settings;
        char *group;
        uint64_t pid, queue;
        bool ready;
        PolicyGrant grant;
        void *userdata; /* the observer's */
        UT_hash_handle hh;
};

struct PlayerDevice {
        uint64_t number;
        char *id;
        Player *player;
        const PolicyOps *ops; /* NULL: between TAPE_LOST and the next TAPE_POLICY, and before the first */
        PolicyConfig config;
        Policy *policy;
        PlayerNode *nodes;      /* uthash, by id */
        PlayerEntity *entities; /* uthash, by id */
        TapeGrant *got;         /* grants of the last dispatch */
        size_t n_got, n_got_lost;
        UT_hash_handle hh;
};

/* Called after the policy's function. Any of them may be NULL. */
typedef struct PlayerOps {
        int (*entity_added)(PlayerEntity *e, uint64_t at_ns, void *userdata); /* a negative errno ends it */
        void (*entity_removed)(PlayerEntity *e, uint64_t at_ns, void *userdata);
        void (*ready)(PlayerEntity *e, uint64_t at_ns, void *userdata); /* it was not */
        void (*idle)(PlayerEntity *e, uint64_t at_ns, void *userdata);  /* it was ready */
        void (*drained)(PlayerEntity *e, uint64_t at_ns, void *userdata);
        void (*granted)(PlayerEntity *e, const PolicyGrant *former, uint64_t at_ns, void *userdata);
} PlayerOps;

struct Player {
        const PlayerOps *ops;
        void *userdata;
        PlayerDevice *devices; /* uthash, by number */
        uint64_t begin_ns, last_ns;
        uint64_t realtime_us;
        uint64_t n_records, n_dispatches, n_grants, n_lost;
        bool begun, ended, lost;
        char why[256]; /* text of the last failure or difference */
};

/* `ops` may be NULL. */
void player_init(Player *p, const PlayerOps *ops, void *userdata);
void player_done(Player *p); /* calls entity_removed() for all entities */

/* Plays one record. Returns 1: as recorded. 0: the policy decided otherwise, see `why`. -EBADMSG: the record is
 * invalid, see `why`; -ENOMEM. */
int player_play(Player *p, const TapeRecord *r);

PlayerDevice *player_device(const Player *p, uint64_t number); /* NULL: there is none */
