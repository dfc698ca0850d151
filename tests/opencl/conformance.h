/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cl-test.h"

/*
 * The cases of the conformance program: each sets up what it needs, checks what it computed, and prints what the
 * runtime told
 */

typedef struct Case {
        const char *name;
        void (*run)(void);
} Case;

/* Ended by a NULL name. */
extern const Case order_cases[];  /* queues, events, callbacks: what runs when */
extern const Case data_cases[];   /* copies, maps, fills, images, SVM */
extern const Case object_cases[]; /* errors, references, queries, profiling, sub-devices */
