/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Tally: usage of one device by a group, and its entities there
 *
 * A tally is made with the group's first entity on the device, and freed with the group or the device. (A group's sum
 * over all devices is in Group.usage, and outlives the devices.)
 */

#include "entity.h"

struct Tally {
        Group *group;
        Device *device;
        PolicyUsage gone; /* usage of freed entities */
        uint64_t gone_service_wait_ns;
        Entity *entities; /* list, by tally_prev/tally_next */
        Tally *group_prev, *group_next;
        Tally *device_prev, *device_next;
};

/* For entity_new() and entity_free(). */
int tally_join(Entity *e);
void tally_leave(Entity *e);

void tallies_free_of_group(Group *g);
void tallies_free_of_device(Device *d);

/* tally_sum() asks at most this many entities whether they wait. */
#define TALLY_LOOKED_AT 64U

typedef struct TallySum {
        PolicyUsage usage;
        uint64_t service_wait_ns;
        AccountSource source; /* how run_ns is counted */
        unsigned n_queues;
        unsigned n_held;        /* entities that are held with work, or suspended */
        const char *held_why;   /* reason of the one that waits longest, as in Waits; NULL: none waits */
        uint64_t held_since_ns; /* since when that one waits; 0: not known */
} TallySum;

void tally_sum(const Tally *t, uint64_t now, TallySum *ret);
