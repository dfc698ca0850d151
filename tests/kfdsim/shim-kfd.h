/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The KFD layer in a process with queues, against a service that does what the test says
 *
 * For programs that run with libxsched-kfd.so and libkfdsim.so preloaded, in this order. Each case is a process of its
 * own with an AQL client over the real libhsakmt; Proofs show what happened to every dispatch.
 */

#include "aql.h"
#include "hal/kfd-abi.h"
#include "include/xsched/xsched.h"
#include "kfdsim.h"
#include "shim/kfd/hsa.h"
#include "tests/lib/bus-cases.h"
#include "tests/lib/fake-scheduler.h"

#define WATCH_ALL (PAGE_WATCH_READY | PAGE_WATCH_IDLE | PAGE_WATCH_DRAINED)
#define SHORT_NS  (200 * NSEC_PER_USEC)

/* Indices in KFDSIM_GPUS, as tests/kfdsim/meson.build sets it. */
#define GFX90A  0U
#define GFX1100 1U

/* Every case begins with a service and a GPU. The client is this process, once it has a queue. */
extern FakeScheduler *s;
extern FakeClient *client;
extern AqlDevice device;
void start(unsigned gpu);

uint64_t n_registered(void);
AqlQueue *bare_queue(void);
AqlQueue *queue(void); /* returns when the service knows it */
void dispatch(AqlQueue *q, unsigned n, uint64_t duration_ns);
void finish(AqlQueue *q); /* waits until all is done, and checks the proof */

/* Whether nothing happens for far longer than a dispatch takes: no event tells that there is no event. */
bool stands_still(const AqlQueue *q);
void nap(uint64_t ns);

/* Verdicts. The slots of n queues are 0 to n - 1. */
bool is_applied(uint32_t slot);
void hold(uint32_t slot, uint64_t lease_ns); /* and does not wait */
void hold_all(uint32_t n);                   /* returns when all are held */
void run_all(uint32_t n);

/* "4", "5", "hang"; how: "" or ":late". See failure.c. */
void fail_updates(const char *error, int count, int skip, const char *how);

/* A program that makes ioctls itself, as one with a thunk linked into it does. */
typedef struct Raw {
        int fd;
        char *memory;
} Raw;

Raw raw_new(int fd);
Raw raw_open(void);
int raw_create(const Raw *r, uint32_t type, size_t size, KfdCreateQueue *ret);
int raw_update(int fd, const KfdCreateQueue *q, uint32_t percentage, uint32_t priority);
int raw_destroy(const Raw *r, uint32_t id);

/* The memory that every HSA runtime lays out before it asks the kernel for a queue: the program plays a runtime. */
#define VIEW_RING_SIZE 4096U

typedef struct View {
        AmdQueue *queue;
        AmdSignal *signal;
        KfdCreateQueue a;
} View;

View view_new(const Raw *r); /* in its memory; not made yet */

int shim_cases_run(const BusCase *cases, size_t n, int argc, char *argv[]);
