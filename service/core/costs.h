/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Costs: estimated times of draining a queue, taking it off the device and putting it back
 *
 * All samples come from pages, which clients can write. A client's word about its own work (how much, how long) is used
 * for that client only, within bounds. Its word about the device (how long its driver took) becomes part of a vote: a
 * sample is at most the time that the service itself has measured, and moves the vote by a factor of COSTS_SPREAD at
 * most.
 *
 * Each owner (party.h) has one vote, however many queues and processes it has; the vote ends with the owner's last
 * queue there. The device's estimate is the median of the votes, the lower one of two. An owner's queues are held by
 * the lesser of that and of the owner's vote. An owner without a vote counts as not measured, so that its queue is
 * taken off once and measured then. So no invented vote keeps another owner on the device. A vote that is too low at
 * worst takes queues off where waiting would have been shorter. An owner that lies, with no other to compare it with,
 * is bounded by what the service itself has measured.
 *
 * An estimate that is too high would stay: a queue that is never taken off is never measured again, and the first
 * sample may come from a moment at which the driver was busy. So an estimate is halved after each COSTS_DOUBT_NS
 * without a sample, until a queue is taken off again. Where the estimate was right, this takes a queue off in vain a
 * few times a minute.
 *
 * Pure.
 */

#include <stdbool.h>
#include <stdint.h>

#include "common/time-util.h"
#include "policy/policy.h"

#define COSTS_MIN_NS       (1 * NSEC_PER_USEC)
#define COSTS_MAX_NS       (10 * NSEC_PER_SEC)
#define COSTS_SPREAD       4U
#define COSTS_DRAIN_MAX_NS (10 * NSEC_PER_SEC)
#define COSTS_DOUBT_NS     (1 * NSEC_PER_SEC)

/* Running estimates; 0: not measured yet. */
typedef struct Costs {
        uint64_t hold_ns, release_ns; /* from the word until the driver is done, with the wake-up */
} Costs;

typedef struct CostVote CostVote;

struct CostVote {
        PolicyParty party;
        Costs costs;
        uint64_t hold_at, release_at; /* when the newest sample of each came; 0: none yet */
        unsigned n_refs;
        CostVote *prev, *next;
};

/* Measured votes, sorted; has room for all votes. */
typedef struct CostPoll {
        uint64_t *values;
        size_t n;
} CostPoll;

typedef struct CostVotes {
        CostVote *votes;
        size_t n;
        CostPoll hold, release;
} CostVotes;

/* Finds or makes the owner's vote, and takes a reference. -ENOMEM. */
int costs_vote_get(CostVotes *v, const PolicyParty *party, CostVote **ret);

/* Gives a reference back; the last one frees the vote. Returns NULL. */
CostVote *costs_vote_put(CostVotes *v, CostVote *vote);

/* Adds a sample of holding, or of releasing, to the vote. `elapsed_ns`: upper bound, as measured by the service. */
void costs_vote_learn(CostVotes *v, CostVote *vote, bool hold, uint64_t sample_ns, uint64_t elapsed_ns, uint64_t now);

/* The device's estimate: the medians of all votes. */
Costs costs_votes(const CostVotes *v);

/* The costs that an owner with this vote (NULL: none) is held by. */
Costs costs_for(const CostVote *vote, const Costs *device, uint64_t now);

/* The estimate after `age_ns` without a sample. */
uint64_t costs_doubt(uint64_t estimate_ns, uint64_t age_ns);

/* Adds a sample to an estimate. `elapsed_ns`: upper bound, as measured by the service. */
void costs_learn(uint64_t *estimate_ns, uint64_t sample_ns, uint64_t elapsed_ns);

/* Time until `n` launches of `mean_ns` each have ended. 0 for none, PREEMPTION_UNKNOWN where mean_ns is 0. */
uint64_t costs_drain(uint64_t n, uint64_t mean_ns);

/* The rest of launches that take `flying_ns` in all, after `elapsed_ns`. Never 0: they are still in flight. */
uint64_t costs_rest(uint64_t flying_ns, uint64_t elapsed_ns);

/* Sum of two such times: queues of a process run one after the other. */
uint64_t costs_drain_add(uint64_t a, uint64_t b);
