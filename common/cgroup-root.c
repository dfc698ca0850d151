/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Where the v2 hierarchy of cgroups is mounted
 */

#include <linux/magic.h>
#include <sys/vfs.h>

#include "cgroup-root.h"
#include "macro.h"

const char *cgroup_root(void) {
        static const char *const mounts[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
        struct statfs fs;

        for (size_t i = 0; i < ELEMENTSOF(mounts); i++)
                if (statfs(mounts[i], &fs) >= 0 && fs.f_type == CGROUP2_SUPER_MAGIC)
                        return mounts[i];
        return NULL;
}
