/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Hints: what a program says of its queues
 */

#include "scheduler.h"

/* What a policy is told of an XQueue by its hints. */
PolicySettings hint_settings(const XQueue *x, const PolicyOps *ops);
/* What both need. */
void hint_merge(PolicySettings *s, const PolicySettings *other);
/* It is not to run at all. */
bool hint_forbids(const XQueue *x, const PolicyOps *ops);
/* Under GLB. */
void hint_send(XQueue *x);
/* A hint, or the threshold, is another: tells who wants to know. Always kXSchedSuccess, for the call to return. */
XResult hint_changed(XQueue *x);
Hints hint_defaults(void);
