/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Who is calling
 */

#include "auth.h"

/* Who is calling is known already, for the message that is about to be dispatched: the bus need not be asked. `user` is
 * as whom he counts where places are counted (user.h). NULL: nothing is known. */
void auth_know_sender(const sd_bus_message *m, uid_t uid, uid_t user);

/* The same message comes from no bus, which could tell who is calling, but from this process. The pidfd is the
 * caller's. */
void auth_know_process(pid_t pid, int pidfd);

/* > 0: that process. 0: the bus knows. -ESRCH: it is gone. */
int auth_sender_process(const sd_bus_message *m, AuthProcess *ret);

/* About whom polkit is asked. */
int auth_append_subject(sd_bus_message *call, sd_bus_message *m, uid_t uid, const AuthProcess *p);

/* Whom a call comes from, by the bus: 0 and the effective uid. */
int auth_sender_uid(sd_bus_message *m, uid_t *ret);

/* And as which user `uid`, the sender's, counts. */
uid_t auth_sender_user(const sd_bus_message *m, uid_t uid);
