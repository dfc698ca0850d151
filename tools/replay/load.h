/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Load: what each entity of a recording wanted, without the decisions of the policy
 *
 * An entity's load is its bursts: how much of the device's time each took, as the recorded policy counted it, and how
 * long the entity was idle after it. Under another policy each burst takes as much, and the entity is idle after it for
 * as long (a closed loop). The first burst becomes ready when it did in the recording. A burst that did not end in the
 * recording never ends. Launches in flight after a hold run on for as long as they did on average.
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

/* A record that is neither an edge nor a decision; for TAPE_ENTITY with the entity's load. */
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

/* Takes the record, if it is one that loads have; else leaves it alone. `entity`: the load of TAPE_ENTITY, which is
 * taken, too. Returns 0 or -ENOMEM. */
int load_add(Load *l, TapeRecord *r, uint64_t at_ns, LoadEntity *entity);

/* The entity's burst begins; or it ends, after so much run time. `cut`: it ended with the entity, or with the
 * recording. Return 0 or -ENOMEM. */
int load_entity_ready(LoadEntity *e, uint64_t at_ns);
void load_entity_idle(LoadEntity *e, uint64_t at_ns, uint64_t run_ns, bool cut);
