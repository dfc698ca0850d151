/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Selection: the devices and groups of a snapshot that get series of their own
 *
 * Users name devices and make groups, so the number of all series is limited. The devices and groups that exist longest
 * get series of their own; the groups of one user take no more than a fourth of the places while there are others. All
 * other devices and groups are summed up.
 *
 * A sum over the groups that are left out now would fall whenever one of them ends, or gets series of its own, and a
 * reader takes a counter that falls for one that has begun anew. So the sums are counters of this process, which begin
 * with 0: each time, what every group that is left out has added since the last time is added to them.
 */

#include "tools/exporter/snapshot.h"

#define SERIES_MIN     1000U
#define SERIES_MAX     10000000U
#define SERIES_DEFAULT 10000U

/* Upper bounds of the series of one device, of one group on one device, and of everything else. */
#define SERIES_OF_DEVICE 50U
#define SERIES_OF_GROUP  13U
#define SERIES_OF_REST   (72U + SNAPSHOT_REASONS_MAX + SNAPSHOT_BOUNDS_MAX)

/* The counters of devices and groups that were left out so far. */
typedef struct Others Others;
Others *others_new(void);
Others *others_free(Others *o);
DEFINE_TRIVIAL_CLEANUP_FUNC(Others *, others_free);

typedef struct Selection {
        const SnapshotDevice **devices;
        size_t n_devices, n_devices_left_out;
        const SnapshotGroup **groups;
        size_t n_groups, n_groups_left_out;

        /* The sums; their counters are UNKNOWN where they are not counted (`others` NULL). */
        SnapshotDevice other_devices;
        SnapshotGroup other_groups;
} Selection;

/* Makes the selection for a snapshot, which has to live as long. To be called once for each snapshot. Returns 0 or
 * -ENOMEM. */
int selection_make(const Snapshot *s, size_t max_series, Others *others, Selection *ret);
void selection_done(Selection *s);
