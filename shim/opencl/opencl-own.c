/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Calls into the runtime on our own account
 */

#include "shim/opencl/opencl-own.h"
#include "common/futex.h"
#include "common/time-util.h"
#include "shim/opencl/opencl-queue.h"

#define STOPPED UINT32_C(0x80000000)
#define WAIT_NS (1 * NSEC_PER_SEC)

/* Number of own calls in progress, and the flag STOPPED. A futex for the thread that has stopped them. */
static _Atomic uint32_t own;

/* Own calls of this thread: the thread that stops them must not wait for itself. */
static __thread uint32_t own_here __attribute__((tls_model("initial-exec")));

static void leave(void) {
        if (atomic_fetch_sub(&own, 1) & STOPPED)
                (void) futex(&own, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, 0);
}

bool opencl_own_begin(void) {
        if (atomic_fetch_add(&own, 1) & STOPPED) {
                leave();
                return false;
        }
        own_here++;
        return true;
}

void opencl_own_end(void) {
        own_here--;
        leave();
}

bool opencl_own_is_here(void) {
        return own_here > 0;
}

void opencl_own_stop(void) {
        uint64_t until = now_ns() + WAIT_NS;
        uint32_t v = atomic_fetch_or(&own, STOPPED) | STOPPED;

        while ((v & ~STOPPED) > own_here) {
                uint64_t now = now_ns();
                if (now >= until)
                        return;
                struct timespec left = ns_to_timespec(until - now);
                (void) futex(&own, FUTEX_WAIT_PRIVATE, v, &left, 0);
                v = atomic_load(&own);
        }
}

void opencl_own_restart(void) {
        atomic_fetch_and(&own, ~STOPPED);
}

void opencl_own_fork_child(void) {
        atomic_store(&own, (atomic_load(&own) & STOPPED) | own_here);
}
