/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Short slices
 */

#include <sys/syscall.h>
#include <unistd.h>

#include "common/macro.h"
#include "short-slice.h"

/* As the kernel has it since 5.3. Some C libraries declare it, and others do not. */
typedef struct Attributes {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
        uint32_t util_min, util_max;
} Attributes;

int short_slice_set(void) {
        Attributes a = {0};

        if (syscall(SYS_sched_getattr, 0, &a, (unsigned) sizeof(a), 0U) < 0)
                return negative_errno();
        a.size = sizeof(a);
        a.runtime = SHORT_SLICE_NS;
        return syscall(SYS_sched_setattr, 0, &a, 0U) < 0 ? negative_errno() : 0;
}
