/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Records a policy under test on a tape, and plays it again from the tape's text: the grants have to be the same.
 */

#include "policy-harness.h"
#include "tape/feed.h"
#include "tape/player.h"

typedef struct TapeCheck {
        TapeFeed feed;
        TapeText text;
        size_t n_records, n_grants;
} TapeCheck;

/* Begins to record a new harness's policy; `c` must not move. */
void tape_check_begin(TapeCheck *c, Harness *h);

/* Plays the tape, after the harness has ended. Fails the test at the first record that differs. */
void tape_check_end(TapeCheck *c);

/* The tape's line number `n`, from 0, with its newline; the caller frees it. NULL: there are fewer lines. */
char *tape_check_line(const TapeCheck *c, size_t n);
