/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Relays: between a guest's socket and the service's end of a socket pair
 *
 * A read or write of a guest's socket makes the kernel walk past all threads that wait at it, and a guest can make a
 * million threads wait. To close it may take as long as the guest likes (ends.h). So the event loop never touches a
 * guest's socket: a relay's thread does. The service has one end of a socket pair, of which no other process has a
 * copy.
 *
 * The service gets whole units only: a line of the authentication, or a message. Incomplete ones stay in the kernel,
 * where they count as the sender's memory. At most RELAY_MESSAGE_MAX and a little are on the way in, and
 * RELAY_UNREAD_MAX on the way out: a guest that does not read its answers is not read from. Descriptors that the
 * service sends travel with the first byte of their message.
 *
 * Users take turns. A turn may take RELAY_FAIR_NS of a CPU, and as much for each message. A user whose turns together
 * have taken RELAY_SLOW_NS more than that is cut off, with all of the user's guests; 20 ms of the excess are forgotten
 * per second. So is the user of a guest that sends a descriptor: no call takes one, and the relay does not receive it.
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

/* Takes both on success; -EAGAIN: the relay is busy. The guest is served in turns of `user`. */
int relay_add(Relay *r, int guest, int service, uid_t user);

/* Asks the relay's thread to let all guests go, and to end. It calls gone() for each, and at last with the user -1. */
void relay_stop(Relay *r);
