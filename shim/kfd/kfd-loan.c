/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Turns of held queues that the runtime waits for
 *
 * A runtime that takes scratch memory back from a queue spins, with a lock of the device, until the queue is past the
 * packets that use it (kfd_aql_reclaims()). While a hold keeps the queue off the device, such as a suspension,
 * this does not end, and other threads wait for the lock. So the queue is lent to the device: it is on for LOAN_NS out
 * of every LOAN_NS + PAUSE_NS, until the runtime has its memory. The gate stays closed, so that only what was in flight
 * goes on.
 */

#include "kfd-loan.h"
#include "common/macro.h"
#include "shim/kfd/kfd-aql.h"
#include "shim/kfd/kfd-queue.h"

#define LOAN_NS  (10 * NSEC_PER_MSEC)
#define PAUSE_NS (90 * NSEC_PER_MSEC)

static bool has_work(const KfdQueue *q) {
        return atomic_load(q->hal.write_index) > atomic_load(q->hal.read_index);
}

static void loan_begin(KfdQueue *q, uint64_t now) {
        HalQueue *hal = &q->hal.hal;

        q->lent = hal_kfd_ops.release(&hal, 1) >= 0;
        q->loan_ns = now + (q->lent ? LOAN_NS : PAUSE_NS);
}

static void loan_end(KfdQueue *q, uint64_t now) {
        q->loan_ns = now + PAUSE_NS;
        kfd_hold_lent(q);
}

bool kfd_loan_look(KfdQueue *q, uint64_t now) {
        bool held = q->hal.hal.held && !q->follows;
        if (!q->aql || (!held && !q->lent))
                return false;

        bool waited_for = has_work(q) && kfd_aql_reclaims(q->aql);
        if (q->lent && (!waited_for || now >= q->loan_ns))
                loan_end(q, now);
        else if (!q->lent && waited_for && now >= q->loan_ns)
                loan_begin(q, now);
        return q->lent || (has_work(q) && q->aql->caps != 0);
}
