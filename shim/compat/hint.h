/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Hints: what a program says of its queues
 */

#include "scheduler.h"

/* The settings that a policy gets from the hints of an XQueue. */
PolicySettings hint_settings(const XQueue *x, const PolicyOps *ops);
/* What both need. */
void hint_merge(PolicySettings *s, const PolicySettings *other);
/* Whether the XQueue is not to run at all. */
bool hint_forbids(const XQueue *x, const PolicyOps *ops);
/* Under GLB. */
void hint_send(XQueue *x);
/* Called after a hint or the threshold has changed: tells the scheduler. Always returns kXSchedSuccess, for the call to
 * return. */
XResult hint_changed(XQueue *x);
Hints hint_defaults(void);
