/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Recorder: writes the counters of devices and groups into the record
 *
 * The counters grow evenly between two events. So there is no periodic timer: after an event the counters are read, at
 * the earliest RECORDER_INTERVAL_NS after the last reading, and an idle service sleeps. Reading has the lowest priority
 * of the loop, and is done in steps between which verdicts are written. An event costs a look at a flag.
 *
 * The counts of an entity are added when it is removed.
 */

#include "entity.h"
#include "record.h"
#include "walk.h"

#define RECORDER_INTERVAL_NS (1 * NSEC_PER_SEC)

typedef struct Recorder {
        Manager *manager;
        Record *record;
        bool armed; /* a reading is due, or under way */
        bool reading;
        uint64_t pass;    /* number of readings so far */
        uint64_t read_at; /* time of the last reading, ns */
        WalkTable table;  /* the table that is being read */
        Walk walk;
        sd_event_source *timer, *work;
} Recorder;

int recorder_new(Manager *m, Recorder **ret);
Recorder *recorder_free(Recorder *r); /* returns NULL */

/* For callers who ask for the record: reads some of the counters, if a reading is due. > 0: call again; 0: done. */
int recorder_step(Recorder *r);
