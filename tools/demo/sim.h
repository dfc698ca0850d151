/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * --device=amd-sim: tenants on the simulated AMD GPU of a build tree
 *
 * The simulator is for tests and is never installed, so there is a simulated device where the tree was built with the
 * HSA runtime. tests/kfdsim/sim.h says what it models and what it leaves out. Times measured on it say nothing about a
 * real GPU.
 */

#include "tools/demo/demo.h"

#define SIM_DEVICE "amd-sim"

static inline bool sim_is_device(const char *device) {
        return streq_ptr(device, SIM_DEVICE);
}

/* Makes the device, for all children to come; sim_leave() removes it. Returns 0, or a negative errno after saying
 * why. */
int sim_enter(void);
void sim_leave(void);

/* The program that plays tenants and calibrator on a device: this one, or the simulated device's. */
const char *sim_player(const char *device);
