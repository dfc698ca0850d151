/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Rota: lets one process of a group launch at a time, where stopping each of them takes long
 *
 * A driver takes most of a millisecond to stop a process, and stops one process after the other. A group of seven
 * processes has their kernels on the device side by side, so that an entity of higher priority waits for seven stops,
 * and the group for seven releases. So of a group's processes that were stopped lately, which are those with long
 * launches, one launches at a time: the others are held at the gate, or stay stopped. Then only one has to be stopped,
 * and one released.
 *
 *   - Members: processes of a group's entity that were stopped within ROTA_MEMORY_NS. So there is no rota where none is
 *     ever stopped: no other has a higher priority, or launches are short.
 *   - A turn is a time slice, or less when the process becomes idle. The process that has waited longest is next.
 *   - A turn begins when the others have no launches on the device, but after POLICY_TAIL_WAIT at the latest.
 *   - While the whole group is held the rota pauses. A process whose turn was over by then is not released afterwards.
 *
 * Gangs, and groups with queues on several devices, have no rota: their processes may wait for each other. Processes of
 * a group that wait for each other on one device make progress, since each has its turns.
 *
 * Weights, limits and accounts are the group's, and do not change by a rota. An event of an entity in a rota costs
 * O(its queues); entities with more than ROTA_QUEUES_MAX queues have none.
 */

#include <stdbool.h>
#include <stdint.h>

#include "common/time-util.h"

#define ROTA_MEMORY_NS  (10 * NSEC_PER_SEC)
#define ROTA_QUEUES_MAX 64U

typedef struct Device Device;
typedef struct Entity Entity;
typedef struct Queue Queue;

typedef struct Rota {
        bool listed;         /* on Device.rotas */
        uint64_t until;      /* when the rota ends, unless a process is stopped again */
        uint64_t runner;     /* id of the client whose turn it is; 0: none */
        bool waits;          /* the turn has not begun: others have launches on the device */
        uint64_t since;      /* when the turn began */
        uint64_t tail_until; /* the turn begins then at the latest */
        uint64_t look_at;    /* NSEC_INFINITY: at the next event */
        Entity *prev, *next;
} Rota;

typedef struct RotaMember {
        uint64_t stopped_at;     /* 0: never */
        uint64_t ended_at;       /* end of its last turn */
        bool seen, ready, flies; /* while rota.c looks at an entity */
} RotaMember;

/* Called when the queue's driver was ordered to stop it. */
void rota_note_stop(Queue *q, uint64_t now);

/* Called when the queue became ready or idle, or its launches left the device. */
void rota_heard(const Queue *q);

/* Sets Queue.sits_out in all entities of the device, after its policy was dispatched and before words are written.
 * Returns when to call it again; NSEC_INFINITY: at the next event. */
uint64_t rota_turn(Device *d, uint64_t now);

/* Called before the entity is freed. */
void rota_forget(Entity *e);
