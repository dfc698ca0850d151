/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Processes of the host that have a GPU open, counted by how they are scheduled
 */

#include <systemd/sd-bus.h>

#include "tools/host/host-scan.h"

typedef struct HostMetrics {
        bool known;
        uint64_t n[_HOST_STATE_MAX];
        uint64_t n_unseen; /* processes that we may not look at */
} HostMetrics;

/* Counts from the answers to ListClients and ListQueues, and from /proc. Either NULL: the service did not answer, and
 * no process counts as registered. Returns 0 or a negative errno. */
int host_metrics_count(sd_bus_message *clients, sd_bus_message *queues, HostMetrics *ret);
