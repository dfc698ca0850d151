/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Feed: makes records of a tape from the tap of one device's policy
 */

#include "policy/tap.h"
#include "record.h"

typedef struct TapeFeedOps {
        /* Takes one record, which is valid during the call only. */
        void (*record)(const TapeRecord *r, void *userdata);
        /* Fills group, pid and queue of an entity; the strings have to live as long as `owner`. */
        void (*label)(void *owner, TapeRecord *r);
} TapeFeedOps;

typedef struct TapeFeed {
        const TapeFeedOps *ops;
        void *userdata;
        uint64_t device;
        PolicyTap tap;
        TapeGrant *grants; /* of the dispatch in progress */
        size_t n_grants, n_lost;
} TapeFeed;

/* `f` must not move. */
void tape_feed_init(TapeFeed *f, uint64_t device, const TapeFeedOps *ops, void *userdata);
void tape_feed_done(TapeFeed *f);

/* Records the begin of a policy instance, and taps it. Call it before any other call of the instance. */
void tape_feed_begin(TapeFeed *f, Policy *p, const PolicyOps *ops, const PolicyConfig *config, uint64_t now_ns);

/* Called when the new instance that began last was dropped, and `p` goes on: its records are lost. */
void tape_feed_break(TapeFeed *f, Policy *p);
