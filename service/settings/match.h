/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Match: the [Match] section of a class, which selects processes by cgroup, user and executable
 *
 * The conditions of all keys must hold; of the values of one key, one is enough. A value that begins with '!' excludes:
 * the condition fails when it fits, and a key with nothing but such values holds for all the rest. A fact that does not
 * exist (the container of a process that is in none) fits no value. If a fact is unknown (the user of a group with
 * processes of several users), no condition about it holds.
 *
 * If a line is not valid, the rest of the section may match more processes than its author meant. So such a section is
 * `broken` as a whole.
 *
 * Some facts can be forged. A process chooses what it executes. The owner of a delegated unit (a user's own manager, a
 * container's payload) chooses the names of cgroups below it. The user who starts a pod chooses its annotations. A
 * class that fits only by such facts may lower, and never raise: the caller says which facts it passes.
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
        MATCH_NAMESPACE,
        MATCH_POD_LABEL,
        MATCH_PRIORITY_CLASS,
        MATCH_SLURM_JOB,
        MATCH_EXECUTABLE,
        _MATCH_KEY_MAX,
} MatchKey;

const char *match_key_to_string(MatchKey v);

typedef struct MatchPattern {
        MatchKey key;
        bool negated;
        char *text; /* without the '!' */
        uid_t uid;  /* MATCH_USER */
        char *file; /* the file that it is in */
        unsigned line;
} MatchPattern;

typedef struct Match {
        MatchPattern *patterns;
        size_t n;
        bool broken; /* matches no process */
} Match;

#define MATCH_NULL ((Match){0})

#define MATCH_NO_USER ((uid_t) -1)

/* Labels of a cgroup and of those above it: cgroup-attr.h. */
#define MATCH_LABELS_MAX 64U

typedef struct MatchLabel {
        const char *key, *value; /* "namespace", "pod-label.app" */
} MatchLabel;

/* Of a process, or of a group. */
typedef struct MatchFacts {
        const char *cgroup;
        size_t cgroup_size;     /* as much of it as counts */
        uid_t uid;              /* MATCH_NO_USER: unknown */
        const char *executable; /* a path, or just a name; NULL: unknown */
        Container levels[CONTAINER_LEVELS_MAX];
        size_t n_levels;
        MatchLabel labels[MATCH_LABELS_MAX]; /* of one key the first counts */
        size_t n_labels;
} MatchFacts;

/* Facts that a process cannot forge: the user, and the first `named` bytes of `cgroup`, at most, which root has named.
 * The strings stay the caller's. */
void match_facts_trusted(const char *cgroup, size_t named, uid_t uid, MatchFacts *ret);
/* All facts, forgeable ones included. */
void match_facts_all(const char *cgroup, uid_t uid, const char *executable, MatchFacts *ret);

/* Adds a label to facts made before. Ignores labels beyond MATCH_LABELS_MAX. The strings stay the caller's. */
void match_facts_add_label(MatchFacts *f, const char *key, const char *value);

/* The keys of the section, for ConfSection; in the order of MatchKey. */
extern const ConfItem match_items[_MATCH_KEY_MAX];

/* Takes one line of the section: `value` is a list of words; "" removes the key's former words. -EINVAL: nothing was
 * taken, and the section is broken. `item` NULL: the line could not be read. */
int match_assign(Match *m, const ConfItem *item, const char *value, const char *file, unsigned line);

/* A pattern of this key. */
bool match_has(const Match *m, MatchKey key);

int match_copy(const Match *m, Match *ret);
void match_done(Match *m);

/* Whether the section matches; one without conditions matches no process. */
bool match_test(const Match *m, const MatchFacts *f);

/* Why it matches: "/etc/xsched/classes.d/batch.class:7: Unit=train-*, User=ann". Newly allocated. */
int match_explain(const Match *m, const MatchFacts *f, char **ret);
