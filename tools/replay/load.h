/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The load of a recording: what each entity wanted, without what the policy made of it
 *
 * Of an entity these are its bursts: how much of the device's time each took, as the recorded policy counted it, and
 * how long it was idle after it. Under another policy a burst takes as much, and the next one becomes ready as long
 * after the end of the one before as it did: a closed loop. The first becomes ready when it did. A burst that did not
 * end in the recording never ends. What is in flight after a hold runs on for as long as it did on average.
 *
 * Everything else happens when it did: entities and nodes come and go, and change their settings.
 */

#include "tape/player.h"

typedef struct Burst {
        uint64_t ready_ns, idle_ns;
        uint64_t work_ns; /* NSEC_INFINITY: it does not end */
} Burst;

typedef struct LoadEntity {
        Burst *bursts;
        size_t n_bursts;
        uint64_t tails_ns, n_tails;
} LoadEntity;

/* A record that is no edge and no decision, and of TAPE_ENTITY what it wants. */
typedef struct LoadStep {
        TapeRecord record;
        uint64_t at_ns; /* never before the step before it */
        LoadEntity *entity;
} LoadStep;

typedef struct Load {
        LoadStep *steps;
        size_t n_steps;
        uint64_t n_records; /* of the whole recording */
        uint64_t begin_ns, end_ns;
} Load;

void load_done(Load *l);

/* Takes the record, where it is one of a load's; else it stays as it is. `entity`: of TAPE_ENTITY, and is taken, too. 0
 * or -ENOMEM. */
int load_add(Load *l, TapeRecord *r, uint64_t at_ns, LoadEntity *entity);

/* Its burst begins; or ends, with so much run since. `cut`: with the entity, or the recording. 0 or -ENOMEM. */
int load_entity_ready(LoadEntity *e, uint64_t at_ns);
void load_entity_idle(LoadEntity *e, uint64_t at_ns, uint64_t run_ns, bool cut);
