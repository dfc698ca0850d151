/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A simulated machine under the real policy: a device that takes launches first come, first served, or in turns of its
 * own between programs; programs that launch and wait; and a service that learns of both by edges, late
 *
 * Discrete events in virtual time, no clock. Between a program and the service there is what common/page.h has: a slot
 * with `outstanding`, `waiters`, stamps and a verdict, a dirty mark for each edge, and one wake-up for many of them.
 * The service treats edges as in service/core/edges.c, and tails as in service/core/tail.c. The device itself counts
 * the truth: how long it worked on each tenant's launches.
 */

#include "policy/policy.h"
#include "service/core/overlap.h"

#define SIM_TENANTS_MAX 8U
#define SIM_RING        8192U

typedef enum SimPattern {
        SIM_DEEP,  /* always has a launch to make */
        SIM_BURST, /* repeats: launches SIM_BURST_NS of work, waits for the end of all of it */
        SIM_SYNC,  /* repeats: makes one launch, waits for its end */
} SimPattern;

#define SIM_BURST_NS (12 * NSEC_PER_MSEC)

/* Times outside the device's work. */
typedef struct SimLatencies {
        uint64_t edge_ns;   /* from an edge to the service */
        uint64_t write_ns;  /* from the service's wake-up to the verdict */
        uint64_t wake_ns;   /* from the verdict to the program at the gate */
        uint64_t timer_ns;  /* lateness of the service's timers */
        uint64_t room_ns;   /* from an end to the program that waits for room */
        uint64_t gap_ns;    /* from an end to the next launch of a program that waits for it */
        uint64_t launch_ns; /* a launch, for the program */
} SimLatencies;

#define SIM_LATENCIES_DEFAULT                                                                                          \
        ((SimLatencies){                                                                                               \
                        .edge_ns = 25 * NSEC_PER_USEC,                                                                 \
                        .write_ns = 3 * NSEC_PER_USEC,                                                                 \
                        .wake_ns = 25 * NSEC_PER_USEC,                                                                 \
                        .timer_ns = 20 * NSEC_PER_USEC,                                                                \
                        .room_ns = 8 * NSEC_PER_USEC,                                                                  \
                        .gap_ns = 15 * NSEC_PER_USEC,                                                                  \
                        .launch_ns = 2 * NSEC_PER_USEC,                                                                \
        })

typedef enum SimWait {
        SIM_RUNS, /* launches next at `at_ns` */
        SIM_AT_GATE,
        SIM_FOR_ROOM,
        SIM_FOR_END,
} SimWait;

typedef struct SimTenant {
        /* the program's kind */
        SimPattern pattern;
        uint64_t kernel_ns;
        uint64_t mean_ns;    /* what the program says of a launch's length; 0: nothing */
        uint64_t long_ns;    /* length of each long_every-th launch */
        uint32_t long_every; /* 0: all are of kernel_ns */
        uint32_t fits;       /* launches in the budget fits_of_ns */
        uint64_t fits_of_ns;
        uint64_t begin_ns;
        uint64_t late_ns, late_every_ns; /* one gap in each late_every_ns is longer by late_ns; 0: none */
        PolicySettings settings;
        PolicyNode *node;

        /* its slot */
        uint32_t outstanding, waiters;
        uint64_t ready_since_ns, launched_ns, drained_ns, busy_ns;
        Verdict verdict;
        uint32_t threshold;
        bool dirty;

        /* the program */
        SimWait wait;
        uint64_t at_ns, late_at_ns;
        uint32_t burst_left;
        bool counted; /* its next launch is counted in `outstanding` already */

        /* the service's */
        PolicyEntity *entity;
        bool told_ready;
        PolicyGrant grant;
        bool changed;
        uint64_t seen_ns, since_ns, flight_ns;
        bool overlaps; /* it is held, with launches in flight */
        Overlap overlap;

        /* the truth */
        uint64_t n_done, device_ns, done_at_ns;
        uint32_t n_on_device;
        uint64_t left_ns;         /* of the first of them */
        uint64_t longest_wait_ns; /* at the gate, or behind others' launches */
} SimTenant;

typedef struct Sim {
        const PolicyOps *ops;
        SimLatencies latencies;
        PolicyConfig config;
        uint64_t budget_ns; /* time that may be in flight under a threshold */
        bool watched;       /* there is a service */

        SimTenant tenants[SIM_TENANTS_MAX];
        size_t n;

        uint64_t now_ns;
        uint64_t share_ns;      /* length of the device's own turns between programs; 0: first come, first served */
        uint8_t ring[SIM_RING]; /* with share_ns 0: launches on the device, by tenant */
        size_t head, tail;
        int current;               /* the tenant whose launch the device works on; -1: none */
        uint64_t from_ns, turn_ns; /* begin of the work not counted yet; end of the tenant's turn */
        uint64_t end_ns;           /* end of the current launch, or of its turn */

        Policy *policy;
        PolicyNode *nodes[SIM_TENANTS_MAX]; /* parents before children */
        size_t n_nodes;
        uint64_t service_ns, timer_ns; /* the service's next wake-up, and its timer; NSEC_INFINITY: none */
        const SimTenant *runner;       /* beside the tails, as of the last look; NULL: none */
        uint64_t runner_done;          /* what it had done then */
        uint64_t n_wakes, n_switches;
        int last;
        PolicyDeviceUsage usage;
} Sim;

/* Fills in the fields that have a default. */
void sim_init(Sim *s);

/* Nodes are added before tenants. */
PolicyNode *sim_add_node(Sim *s, PolicyNode *parent, PolicyNodeSettings settings);
SimTenant *sim_add(Sim *s, SimPattern pattern, uint64_t kernel_ns, PolicySettings settings, PolicyNode *node);

void sim_run(Sim *s, uint64_t ns);
PolicyUsage sim_usage(const Sim *s, const SimTenant *t);
void sim_done(Sim *s);

/* The number of launches that one tenant completes alone and unscheduled in the time. */
uint64_t sim_alone(SimPattern pattern, uint64_t kernel_ns, const SimLatencies *l, uint64_t ns);

/* A test on both kinds of devices, as two cmocka tests: each finds in sim_share_ns what Sim.share_ns is to be. */
extern uint64_t sim_share_ns;

int sim_use_first_come(void **state);
int sim_use_turns(void **state);

#define SIM_IN_BOTH(test)                                                                                              \
        {#test ", first come, first served", test, sim_use_first_come, NULL, NULL}, {                                  \
#                test ", device takes turns", test, sim_use_turns, NULL, NULL                                          \
        }
