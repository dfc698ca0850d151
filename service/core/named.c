/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Finds the part of a cgroup's path that root has named
 */

#include "named.h"
#include "cgroup/cgroup-path.h"

/* systemd makes slices and units, so their paths are enough where their directories cannot be seen. */
size_t named_by_root(const Origin *o) {
        size_t unit = cgroup_path_trusted(o->path), n = strlen(o->path);

        for (o = o->parent; o; o = o->parent)
                if (o->owner == ORIGIN_OWNER_OTHER || (o->owner == ORIGIN_OWNER_UNKNOWN && strlen(o->path) >= unit))
                        n = strlen(o->path);
        return n;
}
