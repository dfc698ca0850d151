/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Code that backends share: batches with rollback, estimates
 */

#include "hal/hal.h"
#include "common/macro.h"
#include "common/time-util.h"

static int apply_one(HalQueue *q, bool held, int (*apply)(HalQueue *q, bool held)) {
        int r = apply(q, held);

        if (r >= 0)
                q->held = held;
        return r;
}

int hal_apply_each(HalQueue *const *queues, size_t n, bool held, int (*apply)(HalQueue *q, bool held)) {
        size_t done = 0;
        int r = 0;

        /* A queue may be in the batch twice: the second time its `held` is right already. */
        for (size_t i = 0; i < n; i++)
                queues[i]->changed = false;
        for (; done < n && r >= 0; done++) {
                HalQueue *q = queues[done];
                if (q->held == held)
                        continue;
                r = apply_one(q, held, apply);
                q->changed = r >= 0;
        }
        for (; r < 0 && done > 0; done--) {
                HalQueue *q = queues[done - 1];
                if (!q->changed)
                        continue;
                q->changed = false;
                (void) apply_one(q, !held, apply);
        }
        return MIN(r, 0);
}

uint64_t hal_learn_cost(uint64_t estimate_ns, uint64_t sample_ns) {
        return ns_learn(estimate_ns, sample_ns);
}
