/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Relays: between a guest's socket and the service's end of a pair
 *
 * What a guest's end is told, and what is taken from it, the kernel does while it walks past everybody who waits at
 * that end: a guest can have a million wait there. And what is closed may take as long as its owner likes (ends.h). So
 * the loop that decides never touches a guest's socket: a thread does, and the service has the other end of a pair that
 * nobody else has.
 *
 * To the service goes what is whole: a line of the authentication, or a message. What is not whole waits in the kernel,
 * where it is the sender's. At most RELAY_MESSAGE_MAX and a little are on their way in, and RELAY_UNREAD_MAX out: who
 * waits for an answer and does not take it is not read from. Descriptors that the service sends go along with the first
 * byte of their message.
 *
 * Users take turns. A turn may take RELAY_FAIR_NS of a CPU, and as much for each message. A user whose turns have taken
 * RELAY_SLOW_NS more than that together is cut off, with all that he has here; of the excess 20 ms are forgotten in a
 * second. So is one that sends a descriptor, which no call in here takes and nobody receives.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Bytes. A registration has some hundred. */
#define RELAY_AUTH_MAX    ((size_t) 1 << 10)
#define RELAY_MESSAGE_MAX ((size_t) 16 << 10)
#define RELAY_UNREAD_MAX  (8 << 10)
#define RELAY_FAIR_NS     (UINT64_C(100) * 1000)
#define RELAY_SLOW_NS     (UINT64_C(10) * 1000 * 1000)
#define RELAY_SLOW_COST   50U /* ns that one of the excess is remembered for */

typedef struct Relay Relay;

/* A guest has gone, or was cut off: then its user is `barred`. Called by the relay's thread. */
typedef void (*relay_gone_t)(uid_t user, bool barred, void *userdata);

/* Begins a thread. */
int relay_new(relay_gone_t gone, void *userdata, Relay **ret);

/* Takes both on success; -EAGAIN: the relay is busy. `user`: whose turn it is with the guest. */
int relay_add(Relay *r, int guest, int service, uid_t user);

/* Its thread lets all guests go and ends, when it comes to it; gone() is called for each, and after the last one with
 * the user -1. */
void relay_stop(Relay *r);
