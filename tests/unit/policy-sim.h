/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A simulated machine under the real policy: a device that takes launches first come, first served, or in turns of
 * its own between programs; programs that launch, and wait; and a service that hears of it by edges, late
 *
 * Discrete events in virtual time, no clock. What is between a program and the service is as in common/page.h: a slot
 * with `outstanding`, `waiters`, stamps and a verdict, a dirty mark for each edge, and one wake-up for many of them.
 * What the service does with what it finds there is as in service/core/edges.c. The truth (whose launches the device
 * worked on, and for how long) is counted by the device itself.
 */

#include "policy/policy.h"

#define SIM_TENANTS_MAX 8U
#define SIM_RING        8192U

typedef enum SimPattern {
        SIM_DEEP,  /* launches whenever it may */
        SIM_BURST, /* launches SIM_BURST_NS of work, waits for the end of all, and again */
        SIM_SYNC,  /* launches one, waits for its end, and again */
} SimPattern;

#define SIM_BURST_NS (12 * NSEC_PER_MSEC)

/* How long things take that are not the device's work. */
typedef struct SimLatencies {
        uint64_t edge_ns;   /* from an edge to the service */
        uint64_t write_ns;  /* from there to the verdict */
        uint64_t wake_ns;   /* from the verdict to the program at the gate */
        uint64_t timer_ns;  /* by which a timer of the service is late */
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
        /* what it is */
        SimPattern pattern;
        uint64_t kernel_ns;
        uint32_t fits; /* launches in the budget fits_of_ns */
        uint64_t fits_of_ns;
        uint64_t begin_ns;
        uint64_t late_ns, late_every_ns; /* one of its gaps in so long is later by that; 0: none */
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
        bool counted; /* the launch that it tries is in `outstanding` */

        /* the service's */
        PolicyEntity *entity;
        bool told_ready;
        PolicyGrant grant;
        bool changed;
        uint64_t seen_ns, since_ns, flight_ns;

        /* the truth */
        uint64_t n_done, device_ns;
        uint32_t n_on_device;
        uint64_t left_ns;         /* of the first of them */
        uint64_t longest_wait_ns; /* at the gate, or behind others' launches */
} SimTenant;

typedef struct Sim {
        const PolicyOps *ops;
        SimLatencies latencies;
        PolicyConfig config;
        uint64_t budget_ns; /* in flight under a threshold */
        bool watched;       /* there is a service */

        SimTenant tenants[SIM_TENANTS_MAX];
        size_t n;

        uint64_t now_ns;
        uint64_t share_ns;      /* how long the device's own turns between programs are; 0: first come, first served */
        uint8_t ring[SIM_RING]; /* launches on the device, by tenant, where it does not */
        size_t head, tail;
        int current;               /* whose launch it works on; -1: none */
        uint64_t from_ns, turn_ns; /* worked since then; when the tenant's turn ends */
        uint64_t end_ns;           /* of its launch, or its turn */

        Policy *policy;
        PolicyNode *nodes[SIM_TENANTS_MAX]; /* those above first */
        size_t n_nodes;
        uint64_t service_ns, timer_ns; /* when it wakes next; NSEC_INFINITY */
        uint64_t n_wakes, n_switches;
        int last;
        PolicyDeviceUsage usage;
} Sim;

/* Fills in what has a default. */
void sim_init(Sim *s);

/* Nodes are made in it before tenants are added. */
PolicyNode *sim_add_node(Sim *s, PolicyNode *parent, PolicyNodeSettings settings);
SimTenant *sim_add(Sim *s, SimPattern pattern, uint64_t kernel_ns, PolicySettings settings, PolicyNode *node);

void sim_run(Sim *s, uint64_t ns);
PolicyUsage sim_usage(const Sim *s, const SimTenant *t);
void sim_done(Sim *s);

/* How many launches one tenant gets done alone, unscheduled, in so long. */
uint64_t sim_alone(SimPattern pattern, uint64_t kernel_ns, const SimLatencies *l, uint64_t ns);
