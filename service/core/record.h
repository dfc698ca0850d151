/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The record: where the time of each device went in the last minutes
 *
 * A ring of frames. A frame is a span of time, and what each device and each group on it did in that span: differences
 * of counters, so that nothing has to be known of what was before. What stood still is not in it, and where nothing
 * moved at all there is no frame. Times are microseconds of CLOCK_MONOTONIC.
 *
 * Frames never change and are counted by reference: who reads the record over many turns of the loop holds those that
 * he has begun with.
 *
 * What it may cost is bounded, and users share the bound. A frame names RECORD_GROUPS_MAX groups. Where there are more,
 * users take turns, each with the group first that ran and waited longest; the rest is summed up per device, as others.
 * So it is with groups beyond RECORD_USER_GROUPS_MAX of a user in a frame, with names beyond RECORD_USER_NAMES_MAX of a
 * user in the whole record, and with names that are too long. Nothing is left out of the sums. Of devices there are
 * RECORD_DEVICES_MAX in a frame, users taking turns likewise; the rest is left out. All of it is some 8 MiB at the very
 * most.
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

/* Of a group on a device. Wait holds drain and service. */
typedef enum RecordTime {
        RECORD_RUN,
        RECORD_KEPT,
        RECORD_WAIT,
        RECORD_DRAIN,
        RECORD_SERVICE,
        _RECORD_TIME_MAX,
} RecordTime;

/* Of a device. */
typedef enum RecordUse {
        RECORD_BUSY,
        RECORD_DEVICE_KEPT,
        RECORD_IDLE,
        _RECORD_USE_MAX,
} RecordUse;

/* Of a device, or of a group. */
typedef struct RecordName {
        uint64_t user; /* who is charged for it */
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
        unsigned first, n; /* of the frame's groups */
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
Record *record_free(Record *r); /* nobody holds a frame any more; returns NULL */
DEFINE_TRIVIAL_CLEANUP_FUNC(Record *, record_free);

/* Adds to the frame that is being made: what a group did on a device since the last was ended. `user` is whoever is
 * charged. What there is no memory for is lost. */
void record_add(Record *r, const char *device, const char *group, uint64_t user,
                const uint64_t us[static _RECORD_TIME_MAX]);
void record_add_device(
                Record *r, const char *device, uint64_t user, const uint64_t us[static _RECORD_USE_MAX]);

/* Ends the frame, if anything was added, and begins the next; drops what is older than RECORD_SPAN_US. A clock that
 * stood still or went back ends nothing: what was added stays for later. */
void record_end(Record *r, uint64_t now_us);

/* When the frame that is being made began. */
uint64_t record_begin_us(const Record *r);

/* Those that end after `since_us`, oldest first, each with a reference: record_unref() gives one back. *ret is newly
 * allocated. */
int record_get(const Record *r, uint64_t since_us, RecordFrame ***ret, size_t *ret_n);
RecordFrame *record_unref(Record *r, RecordFrame *f); /* returns NULL */

/* How many there are, for tests. */
size_t record_n_frames(const Record *r);
size_t record_n_names(const Record *r);
