/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Waits: why something does not run, in words
 */

#include "tools/shared/object.h"
#include "tools/shared/table.h"

/* Describes an element of the property Waits, in a sentence without a full stop: "held for 1.2s: /a/b.service runs,
 * with a higher priority". A new string, NULL without memory. */
char *wait_describe(const Value *wait);

/* The reason for a process of the group that is not a client. The service does not know it: xschedctl finds it. */
#define WAIT_UNREGISTERED "unregistered"

/* Never NULL. */
const char *wait_device(const Value *wait);
const char *wait_reason(const Value *wait);

/* Makes a table of the waits of all groups, which include those of clients and queues with settings of their own, and
 * of processes that are not registered, where a group has Unregistered (xschedctl-target.h). The caller owns *ret, also
 * on failure. 0 or a negative errno. */
int list_waits(const Snapshot *s, Table *ret);

/* Why a process of this machine is no client, as its library says it: a new string; NULL when it does not say. */
char *why_unregistered(const char *pid);

/* Returns that a process has hardly any descriptor left, which keeps its library from registering; NULL: it has. */
char *why_without_descriptors(const char *pid);
