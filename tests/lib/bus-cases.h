/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Cases that are processes of their own, each on a bus of its own
 *
 * A client exists once per process, and is never torn down. The program executes itself for each case, so that
 * constructors see the case's environment.
 */

#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/lib/deadline.h"
#include "tests/lib/private-bus.h"

#define CHECK(condition)                                                                                               \
        do {                                                                                                           \
                if (!(condition)) {                                                                                    \
                        (void) fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                         \
                        _exit(1);                                                                                      \
                }                                                                                                      \
        } while (false)

typedef struct BusCase {
        const char *name;
        void (*run)(void);
        const char *environment; /* one variable */
} BusCase;

#define CASE(name, ...)                                                                                                \
        { #name, case_##name, ##__VA_ARGS__ }

extern PrivateBus bus; /* of the running case; XSCHED_BUS_ADDRESS names it, too */

/* main(): all cases, or the one that `wanted` names. `self` are the arguments by which the program is called again,
 * before the name. */
int bus_cases_run(const BusCase *cases, size_t n, const char *const *self, const char *wanted);
