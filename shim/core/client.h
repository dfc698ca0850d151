/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Client: this process as a client of xschedd, the state that exists once per process
 *
 * shim/ is the application's side: gate.h (one queue's gate), queue.h (the queues and the public calls), client.h (the
 * process), process.h (its forks, and the start of the control thread), control.h (that thread, which talks to the
 * service), and the layers that intercept runtimes. Rules for all of it: it never aborts, exits, prints, waits for the
 * service on an application's thread, or changes what the application computes; errno is preserved; every descriptor is
 * close-on-exec; after a fork the child is a new process without a client.
 *
 * Nothing here is ever torn down: at exit the process may still have threads in the gate or in a driver's callback, and
 * the kernel closes the descriptors. The library is linked with -z nodelete for the same reason.
 */

#include <stdbool.h>
#include <stdint.h>

#include "common/client-environment.h"
#include "include/xsched/xsched.h"
#include "shim/core/hints.h"

/* The environment as it was when the library was loaded. */
const ClientEnvironment *client_environment(void);

/* The hints of the process. */
HintSet *client_hints(void);

/* The state of the connection: set by the control thread, read by any thread. */
void client_set_state(XschedState state);
XschedState client_state(void);
const char *xsched_state_to_string(XschedState state);
void client_set_queues(uint64_t n);
uint64_t client_queues(void);

/* Descriptors that a child has to close. Each keeps its number while a thread may write to it; a new descriptor
 * replaces the old one under the same number. */
typedef enum ClientFd {
        CLIENT_FD_KICK, /* eventfd: any thread wakes the control thread */
        CLIENT_FD_WAKE, /* eventfd: any thread wakes the service */
        CLIENT_FD_LIFELINE,
        CLIENT_FD_BUS,
        CLIENT_FD_MANAGER, /* the user's manager, while link-units.c asks it */
        _CLIENT_FD_MAX,
} ClientFd;

void client_set_fd(ClientFd which, int fd);
int client_fd(ClientFd which);

/* Whether it is still what was set: the application may have closed the number, and use it for something else. */
bool client_has_fd(ClientFd which);

/* Closes it, if it is still ours. */
void client_close_fd(ClientFd which);

/* In a child after fork: closes these descriptors and resets everything except environment and hints. */
void client_forget(void);

/* Makes the eventfd by which the control thread is woken, where there is none. For that thread, or before it starts. */
int client_renew_kick(void);

/* Wakes the control thread. May be called from any thread and from signal handlers. */
void client_kick(void);

/* Prints one line to stderr if XSCHED_DEBUG=1. For the control thread. */
void client_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));
