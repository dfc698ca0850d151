/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Askers: the users whose questions polkit has, and when each may ask the next
 *
 * polkit answers one question after the other, some milliseconds each: who waits for an answer waits for those that
 * others have asked for before. So of one user one question is open at a time, and after an answer that took so long,
 * the user's next question waits as long: of polkit's time at most half is one user's, however many calls of his wait.
 *
 * A dialog is open for as long as a person takes, and may be forgotten in another terminal. Dialogs are counted by
 * themselves, so that no other question waits for one; but what polkit took to say that there will be none counts as
 * any other answer.
 *
 * Pure: times are arguments, in nanoseconds of one clock. No fds, no locks: of one thread.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/macro.h"

/* The bus lets a connection wait for 128 replies by default, and refuses its further calls. */
#define ASKERS_OPEN_MAX 48U /* of each kind */

/* Of one user. */
#define ASKER_QUESTIONS_MAX 1U
#define ASKER_DIALOGS_MAX   4U

/* Nobody waits longer for what an answer took; and a dialog that took longer was with a person. */
#define ASKER_REST_MAX_NS (UINT64_C(1000) * 1000 * 1000)

typedef struct Askers Askers;

int askers_new(Askers **ret);
Askers *askers_free(Askers *a); /* returns NULL */
DEFINE_TRIVIAL_CLEANUP_FUNC(Askers *, askers_free);

/* From when on the user may ask; at most `now`: at once. UINT64_MAX: not before a question, of whomever, is over. */
uint64_t askers_when(const Askers *a, uid_t user, bool dialog, uint64_t now);

/* A question is with polkit, since `now`. -ENOMEM. */
int askers_begin(Askers *a, uid_t user, bool dialog, uint64_t now);

/* It is not any more. `took`: for how long it was; 0 if polkit had no work with it. */
void askers_end(Askers *a, uid_t user, bool dialog, uint64_t now, uint64_t took);
