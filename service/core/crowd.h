/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Crowds: bounds the system calls that a client can make long
 *
 * A notification of a client makes the kernel walk past all threads that wait in the same place: at the client's end of
 * the lifeline, or in the bucket of its futex. A client can have a million of them wait there. So the CPU time of each
 * of these calls is measured and charged to the client's user, whose long calls have a budget of a hundredth of a CPU.
 * The client whose call exceeds the budget is condemned, and manager_turn() disconnects it. Until the debt is paid, the
 * user's clients get no notifications, and no new ones are taken. They then see a verdict only when they look, and a
 * hold ends with its lease.
 *
 * Calls of the usual length are free, however many they are.
 */

#include "client.h"

/* Around one call for a client: Crowd t; if (crowd_begin(&t, c)) { ...; crowd_end(&t); } */
typedef struct Crowd {
        Client *client;
        uint64_t start, cpu_start; /* cpu_start only for suspected users: it costs a system call */
} Crowd;

/* Returns false when the user's budget is spent: then the call must not be made. */
bool crowd_begin(Crowd *t, Client *c);
void crowd_end(Crowd *t);

/* Whether the user is in debt, so that it gets no new client for now. */
bool crowd_is_in_debt(Manager *m, uid_t uid);

/* Called before the client is freed. */
void crowd_forget(Client *c);

/* Sends the datagram "look", because watch flags or levels changed. Never blocks: the datagram is lost when the client
 * does not read. */
void client_notify(Client *c);
