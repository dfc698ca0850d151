/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The layer, loaded over the simulated runtime
 */

#include <CL/cl_layer.h>

#include "shim/opencl/opencl-track.h"
#include "sim-opencl.h"
#include "tests/lib/unit.h"

extern const cl_icd_dispatch *cl; /* as the loader calls us */

int layer_setup_group(void **state);
int layer_setup(void **state);
int layer_teardown(void **state);     /* also looks that nothing of ours is left at the runtime or the library */
int forgotten_teardown(void **state); /* the same where queues were forgotten, whose records stay */
cl_command_queue queue(cl_command_queue_properties properties);
cl_int launch(cl_command_queue q, cl_uint n, const cl_event *waits, cl_event *event);
void launches(cl_command_queue q, int n);
void release(cl_command_queue q);
cl_uint references(cl_event e);
void finish(cl_command_queue q);

/* waiting_queue(): a queue with a tail, whose launches are known to take 20 us. takes(): sets the time that its
 * launches are known to take. */
cl_command_queue waiting_queue(cl_command_queue_properties properties);
void takes(cl_command_queue q, uint64_t ns);
bool has_tail(cl_command_queue q);

/* The n-th of some kernels. Launches of so many items of each are kinds that do not replace each other, as those of two
 * addresses do now and then. */
#define KERNELS_MAX  4U
#define KERNEL_ITEMS 64U
cl_kernel kernel_of_own_place(unsigned n);

/* Longer than a queue may rest. */
void rest(void);

/* How many commands have an event that we hold. */
int n_events_held(void);
