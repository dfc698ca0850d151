/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Hints: wishes of a program for its XQueues
 */

#include "scheduler.h"

/* The settings that a policy gets from the hints of an XQueue. */
PolicySettings hint_settings(const XQueue *x, const PolicyOps *ops);
/* Merges the settings of an XQueue that waits: the result is as urgent as both. */
void hint_merge(PolicySettings *s, const PolicySettings *other);
/* Whether the hints say that the XQueue is not to run at all. */
bool hint_forbids(const XQueue *x, const PolicyOps *ops);
/* Sends the hints to xschedd. Called under GLB. */
void hint_send(XQueue *x);
/* Takes back what xschedd has been told of the XQueue, where it has been told something. */
void hint_withdraw(XQueue *x);
/* Called after a hint or the threshold has changed: tells the scheduler. Always returns kXSchedSuccess, for the call to
 * return. */
XResult hint_changed(XQueue *x);
Hints hint_defaults(void);
