/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Record: where the time of each device went in the last minutes
 *
 * A ring of frames. A frame is a span of time, and what each device and each group on it did in that span: differences
 * of counters, so that a reader needs no earlier state. A frame leaves out counters that did not change, and there is
 * no frame for a span without any change. Times are microseconds of CLOCK_MONOTONIC.
 *
 * Frames never change and are counted by reference: a reader that takes many turns of the loop keeps the frames that it
 * began with.
 *
 * Memory is bounded, and users share the bound. A frame names RECORD_GROUPS_MAX groups. If there are more, users take
 * turns, each with the group first that ran and waited longest; the other groups are summed up per device, as "others".
 * "Others" also has groups beyond RECORD_USER_GROUPS_MAX of a user in a frame, names beyond RECORD_USER_NAMES_MAX of a
 * user in the whole record, and names that are too long. The sums are complete. A frame has RECORD_DEVICES_MAX devices,
 * users taking turns likewise; other devices are left out. The record takes 8 MiB at most.
 *
 * Pure.
 */

#include <uthash.h>

#include "common/macro.h"

#define RECORD_SPAN_US         (UINT64_C(15) * 60 * 1000000)
#define RECORD_FRAMES_MAX      900U
#define RECORD_GROUPS_MAX      64U
#define RECORD_DEVICES_MAX     32U
#define RECORD_USER_GROUPS_MAX 64U
#define RECORD_USER_NAMES_MAX  256U
#define RECORD_NAMES_MAX       4096U
#define RECORD_NAME_LEN_MAX    511U
#define RECORD_PENDING_MAX     512U

/* Times of a group on a device. RECORD_WAIT includes RECORD_DRAIN and RECORD_SERVICE. */
typedef enum RecordTime {
        RECORD_RUN,
        RECORD_KEPT,
        RECORD_WAIT,
        RECORD_DRAIN,
        RECORD_SERVICE,
        _RECORD_TIME_MAX,
} RecordTime;

/* Times of a device. */
typedef enum RecordUse {
        RECORD_BUSY,
        RECORD_DEVICE_KEPT,
        RECORD_IDLE,
        _RECORD_USE_MAX,
} RecordUse;

/* Name of a device or group. */
typedef struct RecordName {
        uint64_t user; /* the user who is charged for the name */
        unsigned n_refs;
        UT_hash_handle hh;
        char text[];
} RecordName;

typedef struct RecordGroup {
        RecordName *name; /* NULL: others */
        uint64_t us[_RECORD_TIME_MAX];
} RecordGroup;

typedef struct RecordDevice {
        RecordName *name;
        uint64_t us[_RECORD_USE_MAX];
        unsigned first, n; /* range in RecordFrame.groups */
} RecordDevice;

typedef struct RecordFrame {
        unsigned n_refs;
        uint64_t begin_us, end_us;
        unsigned n_devices, n_groups;
        RecordDevice *devices;
        RecordGroup groups[];
} RecordFrame;

typedef struct Record Record;

/* `now_us`: when the first frame begins. NULL: no memory. */
Record *record_new(uint64_t now_us);
Record *record_free(Record *r); /* no frame may be referenced any more; returns NULL */
DEFINE_TRIVIAL_CLEANUP_FUNC(Record *, record_free);

/* Adds to the frame in progress: times of a group on a device since the last frame ended. `user` is charged for the
 * name. Without memory the times are lost. */
void record_add(Record *r, const char *device, const char *group, uint64_t user,
                const uint64_t us[static _RECORD_TIME_MAX]);
void record_add_device(Record *r, const char *device, uint64_t user, const uint64_t us[static _RECORD_USE_MAX]);

/* Ends the frame in progress, if anything was added, and begins the next; drops frames older than RECORD_SPAN_US. Does
 * not end the frame if the clock stood still or went back: what was added stays in it. */
void record_end(Record *r, uint64_t now_us);

/* When the frame in progress began. */
uint64_t record_begin_us(const Record *r);

/* Returns the frames that end after `since_us`, oldest first, each with a reference for record_unref(). The caller
 * frees *ret. */
int record_get(const Record *r, uint64_t since_us, RecordFrame ***ret, size_t *ret_n);
RecordFrame *record_unref(Record *r, RecordFrame *f); /* returns NULL */
