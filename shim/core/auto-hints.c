/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * XSched's variables
 */

#include "shim/core/auto-hints.h"

#include "common/auto-xqueue.h"
#include "common/macro.h"
#include "shim/core/complaints.h"

static void set(HintSet *s, const char *name, int64_t value, int64_t min, int64_t max) {
        (void) hints_set(s, name, CLAMP(value, min, max));
}

void auto_hints_read(HintSet *ret) {
        AutoXQueue a;

        auto_xqueue_read(&complaints_source, &a);
        if (!a.on || a.scheduler != AUTO_XQUEUE_GLB)
                return;
        bool lax = a.is_set[AUTO_XQUEUE_LAXITY];
        if (a.is_set[AUTO_XQUEUE_PRIORITY])
                set(ret, lax ? "Critical" : "Priority", a.values[AUTO_XQUEUE_PRIORITY], -255, 255);
        if (lax)
                set(ret, "Laxity", a.values[AUTO_XQUEUE_LAXITY], 1, INT64_C(3600000000));
        if (a.is_set[AUTO_XQUEUE_DEADLINE])
                set(ret, "Deadline", a.values[AUTO_XQUEUE_DEADLINE], 1, INT64_C(3600000000));
        if (a.is_set[AUTO_XQUEUE_UTILIZATION])
                set(ret, "Utilization", a.values[AUTO_XQUEUE_UTILIZATION], 1, 100);
        if (a.is_set[AUTO_XQUEUE_THRESHOLD])
                set(ret, "Threshold", a.values[AUTO_XQUEUE_THRESHOLD], 1, 65535);
}
