/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Shares: a group's node in the policy of a device
 *
 * The nodes of a device mirror the groups that have entities there, and the groups above those, up to POLICY_DEPTH_MAX
 * levels. What lies deeper has no node of its own: it counts as part of its ancestor in the last level, whose limits
 * bind it. A share is made for the first entity in the policy, or share, below it and goes with the last. What it owes
 * then stays with the policy under the group's name, so that whoever leaves, or is started again, finds it:
 * policy/debt.h.
 *
 * A share is limited when a Max= counts for it, its own or one above: then the device is watched even if it is nobody
 * else's, see arbiter.h.
 */

#include "device.h"
#include "group.h"

struct Share {
        Group *group;
        Device *device;
        Share *parent;
        PolicyNode *node; /* the parent's, when it is too deep for one of its own; NULL: the root */
        PolicyNode *next; /* in another policy, while the device changes to that */
        bool own;         /* `node` is its own */
        bool limited;
        unsigned depth, n_refs;

        Share *device_prev, *device_next; /* parents before their children */
        Share *group_prev, *group_next;
};

int share_get(Group *g, Device *d, Share **ret);
Share *share_put(Share *s);

/* The group's settings changed. */
void shares_configure(Group *g);

/* The same nodes in another policy; freed again when that fails. */
int shares_copy(Device *d, const PolicyOps *ops, Policy *p);
void shares_drop(Device *d, const PolicyOps *ops);

/* From now on the others count; those of the former policy are freed. */
void shares_switch(Device *d, const PolicyOps *former);
