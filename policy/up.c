/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Utilisation partitions: each entity (UP), or each process (PUP), has a fixed part of the time (both of XSched, Shen
 * et al., OSDI 2025)
 *
 * The parts are PolicySettings.utilization, in relation to those of all others who have work: what somebody does not
 * use is the others'. In XSched slices are as long as the parts, and kernels that run over a slice tip them; here what
 * was really had is kept count of (fair.h), so that the parts hold in the long run.
 *
 * A part is one of what the node has, and a node's one of what the node above has: ten processes of one tenant have his
 * part together. They are parts of each device: in XSched one round goes over all of them, and one GPU waits for
 * another.
 */

#include "core.h"

static uint32_t up_weight(const PolicySettings *s) {
        return s->utilization;
}

static uint32_t up_node_weight(const PolicyNodeSettings *s) {
        return s->utilization;
}

static void up_hint(Order *o, OrderEntity *e) {
        e->level = 0;
}

DEFINE_POLICY(up, "Utilisation partitions: each group has a fixed part of the time", .weight = up_weight,
                .node_weight = up_node_weight, .hint = up_hint);

DEFINE_POLICY(pup, "Utilisation partitions by process: in each group each process has a fixed part of the time",
                .by_process = true, .weight = up_weight, .node_weight = up_node_weight, .hint = up_hint);
