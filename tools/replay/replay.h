/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Replay: plays a recording again, as it was, or under another policy or with other settings
 */

#include "load.h"
#include "outcome.h"

/* "GROUP:KEY=VALUE", taken apart. */
typedef struct ReplaySet {
        char *group;
        const char *key, *value; /* inside of the argument */
        bool known, has_key;     /* the recording has that group, and it has that setting there */
} ReplaySet;

#define REPLAY_SETS_MAX 32U

/* The changes for a replay. */
typedef struct Otherwise {
        const PolicyOps *ops; /* NULL: the recorded one */
        char *const *params;  /* KEY=VALUE */
        size_t n_params;
        ReplaySet sets[REPLAY_SETS_MAX];
        size_t n_sets;
} Otherwise;

typedef struct Replay {
        Otherwise otherwise;
        Player player; /* of what was recorded */
        Load load;
        Outcome outcome;
        uint64_t at_line; /* of the recording */
        char why[512];
} Replay;

/* Each returns 0 or a negative errno; then `why` says why, with the line of the recording. */
int replay_ask(Replay *p, const char *policy, char *const *params, size_t n_params, const char *const *sets,
                size_t n_sets);
bool replay_is_other(const Replay *p);
int replay_run(Replay *p, FILE *f);
void replay_done(Replay *p);
