/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Costs: what draining, taking off and putting back take, as far as anybody can tell
 *
 * Everything here comes out of pages, so out of the hands of clients. What one says about its own work (how much, how
 * long) is believed as far as it concerns that client, within bounds. What one says about the device (how long its
 * driver took) becomes part of a vote, and a sample is no longer than the service has seen go by itself, and moves that
 * by a factor of COSTS_SPREAD at most.
 *
 * Each owner (party.h) has one vote, however many queues and processes he has; it goes with the last of his queues
 * there. The device's estimate is the median of the votes, of two the lower one. Nobody is held by more than that, nor
 * by more than his own vote; and who has none yet counts as not measured, so that he is taken off once and known then.
 * So others, whatever they invent, cannot keep anybody on the device. What they can do is to say too little, which at
 * worst takes somebody off for longer than it would have taken to wait. And who lies about himself, with nobody to
 * compare him with, is held by what the service itself has seen.
 *
 * An estimate that is too high keeps itself: who is never taken off is never measured again, and the first sample may
 * come from a moment at which the driver had other things to do. So it counts for half after each COSTS_DOUBT_NS
 * without a sample, until somebody is taken off again: a few times a minute for nothing where it was right.
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
        uint64_t hold_ns, release_ns; /* from the word to the driver's end, so with the client's wake-up */
} Costs;

typedef struct CostVote CostVote;

struct CostVote {
        PolicyParty party;
        Costs costs;
        uint64_t hold_at, release_at; /* when the newest sample of each came; 0: nobody has said */
        unsigned n_refs;
        CostVote *prev, *next;
};

/* Measured votes in their order; room for all. */
typedef struct CostPoll {
        uint64_t *values;
        size_t n;
} CostPoll;

typedef struct CostVotes {
        CostVote *votes;
        size_t n;
        CostPoll hold, release;
} CostVotes;

/* Finds the owner's vote or makes it. -ENOMEM. */
int costs_vote_get(CostVotes *v, const PolicyParty *party, CostVote **ret);

/* The last one of its owner's forgets it. Returns NULL. */
CostVote *costs_vote_put(CostVotes *v, CostVote *vote);

/* One more sample for it, of holding or of releasing, that came at `now`. */
void costs_vote_learn(CostVotes *v, CostVote *vote, bool hold, uint64_t sample_ns, uint64_t elapsed_ns,
                uint64_t now);

/* What all votes come to. */
Costs costs_votes(const CostVotes *v);

/* By what the one who has this vote (NULL: none) is held. */
Costs costs_for(const CostVote *vote, const Costs *device, uint64_t now);

/* An estimate for which there was no sample for so long. */
uint64_t costs_doubt(uint64_t estimate_ns, uint64_t age_ns);

/* One more sample for an estimate. `elapsed_ns`: the longest that it can have been. */
void costs_learn(uint64_t *estimate_ns, uint64_t sample_ns, uint64_t elapsed_ns);

/* Until `n` launches of `mean_ns` each have ended. 0 for none, PREEMPTION_UNKNOWN where the mean is (0). */
uint64_t costs_drain(uint64_t n, uint64_t mean_ns);

/* The same of launches that take `flying_ns` in all, and have run for so long. Never 0: they are in flight. */
uint64_t costs_rest(uint64_t flying_ns, uint64_t elapsed_ns);

/* One after the other, as the queues of a process share a device. */
uint64_t costs_drain_add(uint64_t a, uint64_t b);
