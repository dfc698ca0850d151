/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Selections: what of a snapshot gets series of its own
 *
 * Users name devices, and make groups: so many of either have series of their own that all series together stay below a
 * number. Those that have been there longest do, and of the groups of one user no more than a fourth of the places, as
 * long as there are others. What is left out is summed up.
 *
 * A sum over what is left out now would fall whenever one of them ends, or gets series of its own, and for who reads it
 * a counter that falls has begun anew. So what is left out is counted here: what each of them has added since it was
 * seen before. That begins with 0, as the process does.
 */

#include "tools/exporter/snapshot.h"

#define SERIES_MIN     1000U
#define SERIES_MAX     10000000U
#define SERIES_DEFAULT 10000U

/* At most so many of one device, of one group on one device, and of everything else. */
#define SERIES_OF_DEVICE 50U
#define SERIES_OF_GROUP  13U
#define SERIES_OF_REST   (72U + SNAPSHOT_REASONS_MAX + SNAPSHOT_BOUNDS_MAX)

/* What was left out so far. */
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

/* Once for each snapshot, which has to stay as long. 0 or -ENOMEM. */
int selection_make(const Snapshot *s, size_t max_series, Others *others, Selection *ret);
void selection_done(Selection *s);
