/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The sender of a call: uid, user and process
 */

#include "auth.h"

/* Tells the sender of the message that is about to be dispatched, so that the bus need not be asked. `user` is the user
 * whose quotas count (user.h). NULL: nothing is known. */
void auth_know_sender(const sd_bus_message *m, uid_t uid, uid_t user);

/* Tells that this message came from a process on the service's own socket, where no bus can name the sender. The pidfd
 * stays the caller's. */
void auth_know_process(pid_t pid, int pidfd);

/* > 0: that process. 0: the bus knows. -ESRCH: it is gone. */
int auth_sender_process(const sd_bus_message *m, AuthProcess *ret);

/* Appends the subject about which polkit is asked. */
int auth_append_subject(sd_bus_message *call, sd_bus_message *m, uid_t uid, const AuthProcess *p);

/* Returns 0 and the effective uid of the sender, as the bus says. */
int auth_sender_uid(sd_bus_message *m, uid_t *ret);

/* Returns the user that `uid`, the sender's, counts as. */
uid_t auth_sender_user(const sd_bus_message *m, uid_t uid);
