/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What a policy under test does, on a tape, and played again from its text: it has to come out the same.
 */

#include "policy-harness.h"
#include "tape/feed.h"
#include "tape/player.h"

typedef struct TapeCheck {
        TapeFeed feed;
        TapeText text;
        size_t n_records, n_grants;
} TapeCheck;

/* A new harness's policy; `c` must not move. */
void tape_check_begin(TapeCheck *c, Harness *h);

/* After the harness has ended. Fails the test, with the record, where something else comes out. */
void tape_check_end(TapeCheck *c);

/* The tape's line number `n`, from 0, with its newline; the caller's. NULL: it has fewer. */
char *tape_check_line(const TapeCheck *c, size_t n);
