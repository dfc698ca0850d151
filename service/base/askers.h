/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Askers: the users whose questions polkit has, and when each may ask the next
 *
 * polkit answers one question after the other, some milliseconds each, so that a question waits for all earlier ones.
 * So each user has one open question at a time, and the user's next question waits for as long as the last answer took:
 * one user gets at most half of polkit's time, however many calls of the user wait.
 *
 * A dialog is open for as long as a person takes, and may be forgotten in another terminal. Dialogs are counted by
 * themselves, so that no other question waits for one; but what polkit took to say that there will be none counts as
 * any other answer.
 *
 * Pure: times are arguments, in nanoseconds of one clock. No fds, no locks: one thread only.
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

/* Limit of the pause after an answer; an answer that took longer was a dialog with a person. */
#define ASKER_REST_MAX_NS (UINT64_C(1000) * 1000 * 1000)

typedef struct Askers Askers;

int askers_new(Askers **ret);
Askers *askers_free(Askers *a); /* returns NULL */
DEFINE_TRIVIAL_CLEANUP_FUNC(Askers *, askers_free);

/* Returns when the user may ask the next question: at once when that is `now` or earlier. UINT64_MAX: not before one of
 * the open questions has ended. */
uint64_t askers_when(const Askers *a, uid_t user, bool dialog, uint64_t now);

/* A question was sent to polkit at `now`. -ENOMEM. */
int askers_begin(Askers *a, uid_t user, bool dialog, uint64_t now);

/* The question has ended. `took`: how long polkit took for it, in ns; 0 if polkit had no work with it. */
void askers_end(Askers *a, uid_t user, bool dialog, uint64_t now, uint64_t took);
