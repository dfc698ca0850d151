/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The recorder: takes the counters of devices and groups down into the record
 *
 * Who runs and who waits changes with events only: between two events everything is counted evenly. So there is no
 * timer that ticks: an event has the counters read, RECORDER_INTERVAL_NS after they were read last, or at once if that
 * is longer ago; and a service to which nothing happens sleeps. Reading is the last that the loop does, in steps
 * between which verdicts are written. An event costs a look at a flag.
 *
 * What an entity has counted that goes is added as it goes.
 */

#include "entity.h"
#include "record.h"
#include "walk.h"

#define RECORDER_INTERVAL_NS (1 * NSEC_PER_SEC)

typedef struct Recorder {
        Manager *manager;
        Record *record;
        bool armed; /* the counters are going to be read, or are being read */
        bool reading;
        uint64_t pass;    /* how often they were read */
        uint64_t read_at; /* the last time, ns */
        WalkTable table;  /* what is being read */
        Walk walk;
        sd_event_source *timer, *work;
} Recorder;

int recorder_new(Manager *m, Recorder **ret);
Recorder *recorder_free(Recorder *r); /* returns NULL */

/* For who asks for the record: reads a few of the counters, if they are due. > 0: there are more; 0: they are read. */
int recorder_step(Recorder *r);
