/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A simulated device under a policy: discrete events, no clock
 *
 * Workers alternate between a burst of work and a pause; a worker that has work is ready, and its work gets done while
 * it is granted, each at full speed. The same workers can be run on a fluid device, which divides itself among all that
 * are ready in exact proportion to their weights at every instant (no worker more than one slot): the ideal that shares
 * are measured against.
 */

#include "policy-harness.h"

#define DEVICE_WORKERS_MAX 16U

typedef struct Worker {
        PolicySettings settings;
        uint64_t burst_ns[2], pause_ns[2]; /* lowest and highest; a burst of NSEC_INFINITY never ends */
        uint64_t seed;

        Random random;
        Job *job;
        uint64_t left_ns; /* of the burst */
        uint64_t pause_until_ns;
        bool ready;
        uint64_t n_bursts;

        double fluid_left, fluid_done;
} Worker;

typedef struct Device {
        Worker workers[DEVICE_WORKERS_MAX];
        size_t n;
} Device;

/* Runs all workers under the policy for `ns` (jobs are made at the start, and stay in the harness). */
void device_run(Device *d, Harness *h, uint64_t ns);

/* Runs all workers on `slots` fluid slots; priorities are ignored. The result is in Worker.fluid_done. */
void device_run_fluid(Device *d, uint32_t slots, uint64_t ns);
