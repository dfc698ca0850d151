/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * [Match] of a class: whose class it is, by where a process runs and who it is
 *
 * Conditions of several keys must all hold, of the values of one key one is enough. A value that begins with '!'
 * excludes: the condition fails when it fits, and a key with nothing but such values holds for all the rest. What is
 * not there (a process in no container) fits no value. What is unknown (the user, in a group of several users'
 * processes) holds no condition about it.
 *
 * Where a line of it cannot be taken, the rest of the section would say something else than was meant, and more
 * processes may fit than were meant. So such a section is `broken` as a whole.
 *
 * Not everything that can be seen can be believed. What a process runs is its own to choose, and what is called how
 * below a delegated unit (a user's own manager, a container's payload) is its owner's. A class that fits only by such
 * facts may lower, and never raise: who asks says which facts he means.
 */

#include <sys/types.h>

#include "cgroup/container.h"
#include "common/conf-parser.h"

typedef enum MatchKey {
        MATCH_UNIT,
        MATCH_SLICE,
        MATCH_GROUP,
        MATCH_USER,
        MATCH_CONTAINER,
        MATCH_POD,
        MATCH_SLURM_JOB,
        MATCH_EXECUTABLE,
        _MATCH_KEY_MAX,
} MatchKey;

const char *match_key_to_string(MatchKey v);
int match_key_from_string(const char *s);

typedef struct MatchPattern {
        MatchKey key;
        bool negated;
        char *text; /* without the '!' */
        uid_t uid;  /* MATCH_USER */
        char *file; /* where it stands */
        unsigned line;
} MatchPattern;

typedef struct Match {
        MatchPattern *patterns;
        size_t n;
        bool broken; /* matches nobody */
} Match;

#define MATCH_NULL ((Match){0})

#define MATCH_NO_USER ((uid_t) -1)

/* Of a process, or of a group. */
typedef struct MatchFacts {
        const char *cgroup;
        size_t cgroup_size;     /* as much of it as counts */
        uid_t uid;              /* MATCH_NO_USER: unknown */
        const char *executable; /* a path, or just a name; NULL: unknown */
        Container levels[CONTAINER_LEVELS_MAX];
        size_t n_levels;
} MatchFacts;

/* What can be believed: `cgroup` as far as root has named it, which are `named` bytes at most. The strings stay the
 * caller's. */
void match_facts_trusted(const char *cgroup, size_t named, uid_t uid, MatchFacts *ret);
/* All that can be seen. */
void match_facts_all(const char *cgroup, uid_t uid, const char *executable, MatchFacts *ret);

/* The keys of the section, for ConfSection; in the order of MatchKey. */
extern const ConfItem match_items[_MATCH_KEY_MAX];

/* One line of it: `value` is a list of words, "" forgets what the key had. -EINVAL: nothing was taken, and it is
 * broken. `item` NULL: a line that could not be read. */
int match_assign(Match *m, const ConfItem *item, const char *value, const char *file, unsigned line);

/* A pattern of this key. */
bool match_has(const Match *m, MatchKey key);

int match_copy(const Match *m, Match *ret);
void match_done(Match *m);

/* A section without any condition matches nobody. */
bool match_test(const Match *m, const MatchFacts *f);

/* Why it matches: "/etc/xsched/classes.d/batch.class:7: Unit=train-*, User=ann". Newly allocated. */
int match_explain(const Match *m, const MatchFacts *f, char **ret);
