/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Who has named a cgroup
 */

#include "named.h"
#include "cgroup/cgroup-path.h"

/* Of slices, and of units themselves, the path is enough where the directory is not to be seen: systemd has made them.
 */
size_t named_by_root(const Origin *o) {
        size_t unit = cgroup_path_trusted(o->path), n = strlen(o->path);

        for (o = o->parent; o; o = o->parent)
                if (o->owner == ORIGIN_OWNER_OTHER ||
                                (o->owner == ORIGIN_OWNER_UNKNOWN && strlen(o->path) >= unit))
                        n = strlen(o->path);
        return n;
}
