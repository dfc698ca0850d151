/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Making a queue: the one public call that begins the life of a client
 */

#include "common/macro.h"
#include "common/signal-mask.h"
#include "shim/core/process.h"
#include "shim/core/queue.h"

_public_
int xsched_queue_new(const XschedQueueInfo *info, XschedQueue **ret) {
        PROTECT_ERRNO;
        CANCELS_BLOCKED;

        /* A caller built against an older header passes a shorter struct, one built against a newer header a longer
         * one. */
        if (!info || !ret || info->size < offsetof(XschedQueueInfo, label))
                return -EINVAL;
        XschedQueueInfo known = {};
        memcpy(&known, info, MIN((size_t) info->size, sizeof(known)));
        if (isempty(known.device) || isempty(known.backend))
                return -EINVAL;

        gate_set_beside(queue_any_has_others);
        process_before_queue();
        int r = queue_make(&known, ret);
        if (r < 0)
                return r;
        process_after_queue();
        return 0;
}
