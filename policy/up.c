/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Utilisation partitions: each entity (UP), or each process (PUP), has a fixed part of the time (both of XSched, Shen
 * et al., OSDI 2025)
 *
 * The parts are PolicySettings.utilization, relative to those of all others with work: what one does not use, the
 * others get. In XSched slices are as long as the parts, and a kernel that runs beyond its slice distorts them; here
 * the time that an entity really had is counted (fair.h), so that the parts hold in the long run.
 *
 * A part is a part of its node's time, and a node's is a part of the node above: ten processes of one tenant share one
 * part. Each device is divided by itself; in XSched one round goes over all devices, and one GPU waits for another.
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
