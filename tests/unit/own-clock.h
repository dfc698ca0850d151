/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A clock of the test's own: CLOCK_MONOTONIC of all that is linked into it statically
 *
 * For tests of one thread that compare times. Other programs' load on the machine does not change these times: they are
 * the same on each run. The clock goes on by nanosleep(), by own_clock_pass(), and by a little whenever it is read, so
 * that a loop that waits for a time by reading it ends. The program is linked with own_clock_args.
 */

#include <stdint.h>

#define OWN_CLOCK_READ_NS 50U

void own_clock_pass(uint64_t ns);
