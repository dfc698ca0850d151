/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Crowds: system calls that a client can make long
 *
 * To tell a client something is to walk, in the kernel, past everybody who waits where it waits: at its end of the
 * lifeline, or in the bucket of its futex. A client can have a million wait there. So each such call is timed, by the
 * CPU that it took, and counted by user: who makes them long has a hundredth of a CPU for them. Whoever's calls made
 * the user go beyond that is condemned, and manager_turn() disconnects it. The user's clients are told nothing, and no
 * new ones are taken, until the debt is paid. They then see a verdict when they look, and a hold ends with its lease.
 *
 * Calls of the usual length cost nobody anything, however many they are.
 */

#include "client.h"

/* One call for a client:  Crowd t; if (crowd_begin(&t, c)) { ...; crowd_end(&t); } */
typedef struct Crowd {
        Client *client;
        uint64_t start, cpu_start; /* the latter only where there is suspicion: it costs a system call */
} Crowd;

/* False: its user has spent what there is, and the call is not to be made. */
bool crowd_begin(Crowd *t, Client *c);
void crowd_end(Crowd *t);

/* The user has made calls so long that no new client is taken for now. */
bool crowd_is_in_debt(Manager *m, uid_t uid);

/* It is about to be freed. */
void crowd_forget(Client *c);
