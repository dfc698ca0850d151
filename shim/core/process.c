/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The life of the process: forks, and the control thread
 */

#include <fcntl.h>
#include <sys/eventfd.h>

#include "common/macro.h"
#include "common/own-fd.h"
#include "common/thread-util.h"
#include "shim/core/client.h"
#include "shim/core/complaints.h"
#include "shim/core/control.h"
#include "shim/core/look.h"
#include "shim/core/process.h"
#include "shim/core/queue.h"
#include "shim/core/why.h"

typedef enum ControlLife {
        CONTROL_NONE,
        CONTROL_STARTED,
        CONTROL_FAILED, /* it found no memory; queues come and go without it */
} ControlLife;

static struct {
        _Atomic pid_t pid;
        _Atomic bool watches_fork;
        _Atomic uint32_t control; /* ControlLife */
} process;

/* --- fork --- */

/* Runs in the child, in its only thread. The page and the sockets belong to the parent: closes the descriptors and
 * resets the client. The mapping stays, because this may be a signal handler in the middle of a launch. */
static void process_forked(void) {
        PROTECT_ERRNO;

        client_forget();
        queue_forget_all();
        look_forget();
        atomic_store(&process.pid, getpid());
        atomic_store(&process.control, CONTROL_NONE);
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

int process_renew_kick(void) {
        if (client_has_fd(CLIENT_FD_KICK))
                return 0;

        _cleanup_close_ int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (fd < 0)
                return negative_errno();
        int copy = own_fd_copy(fd);
        if (copy < 0)
                return copy;
        client_set_fd(CLIENT_FD_KICK, copy);
        return 0;
}

#define CONTROL_STACK_SIZE ((size_t) 256 * 1024)

/* Does the control thread's work for queues when there is no control thread. */
static void process_reap(void) {
        XschedQueue *dead = queue_take_dead();

        (void) queue_take_new();
        for (XschedQueue *next; dead; dead = next) {
                next = dead->dead_next;
                queue_recycle(dead);
        }
}

static void *control_thread(void *unused) {
        control_main();
        client_set_state(XSCHED_STATE_OFF);
        atomic_store(&process.control, CONTROL_FAILED);
        process_reap();
        return NULL;
}

static int process_start_control(void) {
        int r = process_renew_kick();
        if (r < 0)
                return r;
        return thread_start(control_thread, NULL, CONTROL_STACK_SIZE);
}

void process_after_queue(void) {
        uint32_t life = CONTROL_NONE;

        if (client_environment()->disabled || atomic_load(&process.control) == CONTROL_FAILED) {
                process_reap();
                return;
        }
        if (atomic_compare_exchange_strong(&process.control, &life, CONTROL_STARTED)) {
                int r = process_start_control();
                if (r < 0) { /* the next queue tries again */
                        why_set("its thread cannot be started", strerror(-r));
                        atomic_store(&process.control, CONTROL_NONE);
                }
        }
        client_kick();
}
