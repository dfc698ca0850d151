/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Tables of objects, for the verbs that list them and for `status`
 */

#include "tools/shared/object.h"
#include "tools/shared/table.h"

/* Each makes the table of what the snapshot has of a kind. The caller owns *ret, also on failure. 0 or a negative
 * errno. */
int list_devices(const Snapshot *s, Table *ret);
int list_clients(const Snapshot *s, Table *ret);
int list_queues(const Snapshot *s, Table *ret);
int list_groups(const Snapshot *s, Table *ret);

/* "suspended", or the liveliest of its clients' states. */
const char *group_state(const Snapshot *s, const Object *group);

/* The one array that a call of the manager returns, as a list of lists. An exit status. */
int list_fetch_array(Ctl *c, const char *member, Value *ret);

/* Says whether the listed users are another machine's: then their names are not known here. */
void list_users_are_elsewhere(bool elsewhere);

/* The name of a user, or the number as text. */
Value value_user(uint64_t uid);
