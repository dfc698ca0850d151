/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Ancestors: the processes that a process comes from, itself first
 *
 * They are read once, one at a time, and kept. If a process's parent has died before, the process counts as nobody's
 * descendant: its present parent is a reaper.
 */

#include "cgroup/peer.h"

#define ANCESTORS_MAX 256U

typedef struct Ancestor {
        pid_t pid;
        uint64_t start_time;
} Ancestor;

typedef struct Ancestors {
        Ancestor *list;
        unsigned n;
        pid_t parent; /* of the last one */
        bool complete;
} Ancestors;

void ancestors_done(Ancestors *a);

/* Reads the next one, a file of /proc. Returns whether there may be more. */
bool ancestors_read(Ancestors *a, const Peer *peer);

bool ancestors_have(const Ancestors *a, pid_t pid, uint64_t start_time);
