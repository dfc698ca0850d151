/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The life of the process: forks, and the control thread
 */

#include "shim/core/process.h"
#include "common/macro.h"
#include "common/signal-mask.h"
#include "common/thread-util.h"
#include "common/time-util.h"
#include "common/unwind-util.h"
#include "shim/core/client.h"
#include "shim/core/complaints.h"
#include "shim/core/control.h"
#include "shim/core/gate-private.h"
#include "shim/core/look.h"
#include "shim/core/queue.h"
#include "shim/core/why.h"

typedef enum ControlLife {
        CONTROL_NONE,
        CONTROL_STARTED,
        CONTROL_FAILED, /* it may not sleep; queues come and go without it */
} ControlLife;

static struct {
        _Atomic pid_t pid;
        _Atomic bool watches_fork;
        _Atomic uint32_t control; /* ControlLife */

        /* while it cannot be started */
        _Atomic uint64_t retry_at_ns;
        uint64_t backoff_ns; /* 0: it has not failed */
} process;

/* --- fork --- */

/* Runs in the child, in its only thread. The page and the sockets belong to the parent: closes the descriptors and
 * resets the client. The mapping stays, because this may be a signal handler in the middle of a launch. */
static void process_forked(void) {
        PROTECT_ERRNO;
        CANCELS_BLOCKED;

        client_forget();
        queue_forget_all();
        look_forget();
        atomic_store(&process.pid, getpid());
        atomic_store(&process.control, CONTROL_NONE);
        process.backoff_ns = 0;
        gate_set_start(NULL);
}

void process_before_queue(void) {
        pid_t known = 0;

        /* A child of a bare clone() has run no handlers. */
        if (!atomic_compare_exchange_strong(&process.pid, &known, getpid()) && known != getpid())
                process_forked();
        if (!atomic_exchange(&process.watches_fork, true))
                (void) thread_atfork(NULL, NULL, process_forked);
        complaints_tell();
}

/* --- the control thread --- */

#define CONTROL_STACK_SIZE   ((size_t) 256 * 1024)
#define CANNOT_START         "its thread cannot be started"
#define START_BACKOFF_MIN_NS (100 * NSEC_PER_MSEC)
#define START_BACKOFF_MAX_NS (30 * NSEC_PER_SEC)

static void process_start_again(void);

/* Does the control thread's work for queues when there is no control thread. */
static void process_reap(void) {
        XschedQueue *dead = queue_take_dead();

        (void) queue_take_new();
        for (XschedQueue *next; dead; dead = next) {
                next = dead->dead_next;
                queue_recycle(dead);
        }
}

static void *control_thread(void *userdata) {
        _cleanup_free_ Control *c = userdata;

        control_main(c);
        client_set_state(XSCHED_STATE_OFF);
        atomic_store(&process.control, CONTROL_FAILED);
        process_reap();
        return NULL;
}

static int process_start_control(void) {
        int r = client_renew_kick();
        if (r < 0)
                return r;
        _cleanup_free_ Control *c = calloc(1, sizeof(Control));
        if (!c)
                return -ENOMEM;
        r = thread_start(control_thread, c, CONTROL_STACK_SIZE);
        if (r >= 0)
                TAKE_PTR(c);
        return r;
}

/* For who has made the process CONTROL_STARTED, which keeps all others away. Launches and new queues try again. */
static void process_cannot_start(int r) {
        uint64_t wait_ns = process.backoff_ns == 0 ? START_BACKOFF_MIN_NS
                                                   : MIN(process.backoff_ns * 2, START_BACKOFF_MAX_NS);

        why_set(CANNOT_START, strerror(-r));
        if (process.backoff_ns == 0)
                client_debug("xsched: " CANNOT_START " (%s), running unscheduled", strerror(-r));
        process.backoff_ns = wait_ns;
        atomic_store(&process.retry_at_ns, now_ns() + wait_ns);
        gate_set_start(process_start_again);
        queue_look_again();
        atomic_store(&process.control, CONTROL_NONE);
}

/* No handler jumps out of this: nobody else starts the thread meanwhile. */
static void process_start(void) {
        uint32_t life = CONTROL_NONE;
        sigset_t before;
        CANCELS_BLOCKED;

        thread_block_signals(&before);
        if (atomic_compare_exchange_strong(&process.control, &life, CONTROL_STARTED)) {
                gate_set_start(NULL);
                int r = process_start_control();
                if (r < 0)
                        process_cannot_start(r);
        }
        thread_restore_signals(&before);
}

/* A launch: no thread is started in a signal handler, which may have interrupted libc, nor in a child that has not made
 * a queue of its own. */
static void process_start_again(void) {
        uint64_t now = now_ns();

        if (now < atomic_load(&process.retry_at_ns))
                return;
        if (atomic_load(&process.pid) == getpid() && !in_signal_handler())
                process_start();
        else
                atomic_store(&process.retry_at_ns, now + START_BACKOFF_MIN_NS);
}

void process_after_queue(void) {
        if (client_environment()->disabled || atomic_load(&process.control) == CONTROL_FAILED) {
                process_reap();
                return;
        }
        if (atomic_load(&process.control) == CONTROL_NONE)
                process_start();
        client_kick();
}
