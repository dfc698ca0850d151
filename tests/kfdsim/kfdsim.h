/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Calls of a program to the simulator that it runs on: weak symbols, NULL when the simulator is not preloaded
 */

#include <stdbool.h>
#include <stdint.h>

/* Replaces the failures of this process; the grammar is that of KFDSIM_FAIL (failure.c). 0 or a negative errno. */
int kfdsim_fail(const char *text) __attribute__((weak));

/* Calls of this process so far, and the number of the ioctl that failed on purpose last (0: none). */
uint64_t kfdsim_calls(int *ret_failed) __attribute__((weak));

/* The driver's state of a queue of this process. kfdsim_queue() returns false when the driver knows no such queue. */
typedef struct KfdsimQueue {
        uint32_t percentage, priority;
        bool mapped;
        bool stalled;       /* its kernel has faulted, or caused an exception */
        uint64_t n_updates; /* UPDATE_QUEUEs that it has seen */
} KfdsimQueue;
bool kfdsim_queue(uint32_t id, KfdsimQueue *ret) __attribute__((weak));

/* How often the queues of a GPU have been unmapped and mapped so far; all processes on the GPU pay for that. */
uint64_t kfdsim_maps(uint32_t gpu_id) __attribute__((weak));

/* How many places of this process's rings, over all maps so far, were reserved and had no packet when a map read the
 * write indices again, which it does where KFDSIM_OPTS has strict=0. */
uint64_t kfdsim_torn(uint32_t gpu_id) __attribute__((weak));

/* The last such place: its index, and when it was found (CLOCK_MONOTONIC). The caller knows that no map is under way.
 */
typedef struct KfdsimTorn {
        uint64_t index, found_ns;
} KfdsimTorn;
KfdsimTorn kfdsim_last_torn(void) __attribute__((weak));

/* How many events of this type (KFD_EVENT_*) this process has. */
unsigned kfdsim_events(uint32_t type) __attribute__((weak));

/* The n-th GPU hangs, and the driver resets it; `ecc`: it does so after an error of the GPU's memory. */
void kfdsim_reset(unsigned nth, bool ecc) __attribute__((weak));

/* A queue of this process hangs, and the driver resets it alone. */
void kfdsim_reset_queue(uint32_t id) __attribute__((weak));

/* The driver's ioctl(), past the libraries in front of it. */
int kfdsim_ioctl(int fd, unsigned long request, void *arg) __attribute__((weak));
