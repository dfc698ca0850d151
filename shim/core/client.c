/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * This process as a client: environment, state, hints, fork
 */

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

#include "common/macro.h"
#include "common/thread-util.h"
#include "shim/core/client.h"
#include "shim/core/control.h"
#include "shim/core/look.h"
#include "shim/core/queue.h"

static const char *const client_hint_table[_CLIENT_HINT_MAX] = {
                [CLIENT_HINT_PRIORITY] = "Priority",
                [CLIENT_HINT_WEIGHT] = "Weight",
                [CLIENT_HINT_THRESHOLD] = "Threshold",
};

static const struct {
        int64_t min, max;
} hint_ranges[_CLIENT_HINT_MAX] = {
                [CLIENT_HINT_PRIORITY] = {-255, 255},
                [CLIENT_HINT_WEIGHT] = {1, 10000},
                [CLIENT_HINT_THRESHOLD] = {0, 65535},
};

static const char *const xsched_state_table[] = {
                [XSCHED_STATE_OFF] = "off",
                [XSCHED_STATE_CONNECTING] = "connecting",
                [XSCHED_STATE_ATTACHED] = "attached",
                [XSCHED_STATE_DETACHED] = "detached",
};

static ClientEnvironment environment;

static struct {
        _Atomic uint32_t state; /* XschedState */
        _Atomic uint64_t n_queues;
        _Atomic int fds[_CLIENT_FD_MAX]; /* 0: none */

        _Atomic int64_t hints[_CLIENT_HINT_MAX];
        _Atomic uint32_t hints_set; /* bit n: hint n */
        _Atomic bool hints_changed;

        _Atomic pid_t pid;
        _Atomic bool watches_fork;
        _Atomic uint32_t control; /* ControlLife */
} client;

typedef enum ControlLife {
        CONTROL_NONE,
        CONTROL_STARTED,
        CONTROL_FAILED, /* it found no memory: queues come and go without it */
} ControlLife;

const char *client_hint_to_string(ClientHint h) {
        return (size_t) h < ELEMENTSOF(client_hint_table) ? client_hint_table[h] : NULL;
}

const char *xsched_state_to_string(XschedState state) {
        return (size_t) state < ELEMENTSOF(xsched_state_table) ? xsched_state_table[state] : NULL;
}

const ClientEnvironment *client_environment(void) {
        return &environment;
}

void client_debug(const char *format, ...) {
        char line[512];
        va_list ap;

        if (!environment.debug)
                return;
        va_start(ap, format);
        int n = vsnprintf(line, sizeof(line) - 1, format, ap);
        va_end(ap);
        if (n < 0)
                return;
        n = MIN(n, (int) sizeof(line) - 2);
        line[n++] = '\n';
        (void) !write(STDERR_FILENO, line, (size_t) n);
}

/* --- state --- */

void client_set_state(XschedState state) {
        XschedState old = atomic_exchange_explicit(&client.state, state, memory_order_relaxed);

        if (old != state)
                client_debug("xsched: %s -> %s", xsched_state_to_string(old), xsched_state_to_string(state));
}

XschedState client_state(void) {
        return atomic_load_explicit(&client.state, memory_order_relaxed);
}

void client_set_queues(uint64_t n) {
        atomic_store_explicit(&client.n_queues, n, memory_order_relaxed);
}

/* Stored off by one, so that zeroed memory says "none". */
void client_set_fd(ClientFd which, int fd) {
        atomic_store_explicit(&client.fds[which], fd < 0 ? 0 : fd + 1, memory_order_seq_cst);
}

int client_fd(ClientFd which) {
        int stored = atomic_load_explicit(&client.fds[which], memory_order_seq_cst);
        return stored > 0 ? stored - 1 : -EBADF;
}

void client_kick(void) {
        uint64_t one = 1;
        int fd = client_fd(CLIENT_FD_KICK);

        if (fd >= 0) {
                PROTECT_ERRNO;
                (void) syscall(SYS_write, fd, &one, sizeof(one));
        }
}

_public_
int xsched_get_counters(XschedCounters *ret) {
        if (!ret || ret->size < sizeof(uint32_t))
                return -EINVAL;

        GateCounters c;
        queue_read_counters(&c);
        XschedCounters all = {
                        .size = ret->size,
                        .state = client_state(),
                        .queues = atomic_load_explicit(&client.n_queues, memory_order_relaxed),
                        .launches = c.launches,
                        .tracked = c.tracked,
                        .waited = c.waited,
                        .waited_ns = c.waited_ns,
                        .lease_expired = c.expired,
        };
        memcpy(ret, &all, MIN((size_t) ret->size, sizeof(all)));
        return 0;
}

/* --- hints --- */

static int client_set_hint(ClientHint h, int64_t value) {
        if (value < hint_ranges[h].min || value > hint_ranges[h].max)
                return -ERANGE;
        atomic_store_explicit(&client.hints[h], value, memory_order_relaxed);
        atomic_fetch_or_explicit(&client.hints_set, UINT32_C(1) << h, memory_order_release);
        return 0;
}

bool client_get_hint(ClientHint h, int64_t *ret) {
        if (!(atomic_load_explicit(&client.hints_set, memory_order_acquire) & UINT32_C(1) << h))
                return false;
        *ret = atomic_load_explicit(&client.hints[h], memory_order_relaxed);
        return true;
}

bool client_take_hints_changed(void) {
        return atomic_exchange_explicit(&client.hints_changed, false, memory_order_seq_cst);
}

_public_
int xsched_hint(const char *name, int64_t value) {
        for (ClientHint h = 0; name && h < _CLIENT_HINT_MAX; h++) {
                if (!streq(name, client_hint_table[h]))
                        continue;
                int r = client_set_hint(h, value);
                if (r < 0)
                        return r;
                atomic_store_explicit(&client.hints_changed, true, memory_order_seq_cst);
                client_kick();
                return 0;
        }
        return -EINVAL;
}

/* --- environment --- */

/* What was preloaded has read it before us, when this library was not there yet. */
extern const ClientEnvironment xsched_early_environment __attribute__((weak, visibility("default")));

static void read_hint(ClientHint h, const char *v) {
        if (isempty(v))
                return;

        char *end;
        errno = 0;
        long long value = strtoll(v, &end, 10);
        if (errno == 0 && *end == '\0')
                (void) client_set_hint(h, value);
}

/* When the library is loaded, and not with the first queue: the application may change its environment meanwhile, from
 * another thread. */
__attribute__((constructor)) static void client_read_environment(void) {
        PROTECT_ERRNO;

        if (&xsched_early_environment && xsched_early_environment.size == sizeof(environment))
                environment = xsched_early_environment;
        else
                environment_read(&environment);
        read_hint(CLIENT_HINT_PRIORITY, environment.priority);
        read_hint(CLIENT_HINT_WEIGHT, environment.weight);
}

/* --- fork --- */

/* In the child, which has this one thread. Its page is the parent's, and so are the ends of its sockets: it lets go of
 * both and is as new; the mapping stays, because this may be a signal handler in the middle of a launch. */
static void client_after_fork(void) {
        PROTECT_ERRNO;

        for (ClientFd i = 0; i < _CLIENT_FD_MAX; i++) {
                safe_close(client_fd(i));
                client_set_fd(i, -EBADF);
        }
        queue_forget_all();
        look_forget();
        atomic_store(&client.state, XSCHED_STATE_OFF);
        atomic_store(&client.n_queues, 0);
        atomic_store(&client.pid, getpid());
        atomic_store(&client.control, CONTROL_NONE);
}

void client_before_queue(void) {
        pid_t known = 0;

        /* A child of a bare clone() has run no handlers. */
        if (!atomic_compare_exchange_strong(&client.pid, &known, getpid()) && known != getpid())
                client_after_fork();
        if (!atomic_exchange(&client.watches_fork, true))
                (void) thread_atfork(NULL, NULL, client_after_fork);
}

/* --- the control thread --- */

#define CONTROL_STACK_SIZE ((size_t) 256 * 1024)

/* What the control thread does for queues when there is none. */
static void client_reap(void) {
        XschedQueue *dead = queue_take_dead();

        (void) queue_take_new();
        for (XschedQueue *next; dead; dead = next) {
                next = dead->dead_next;
                queue_recycle(dead);
        }
}

void client_control_failed(void) {
        client_set_state(XSCHED_STATE_OFF);
        atomic_store(&client.control, CONTROL_FAILED);
        client_reap();
}

static int client_start_control(void) {
        if (client_fd(CLIENT_FD_KICK) < 0) {
                _cleanup_close_ int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
                if (fd < 0)
                        return negative_errno();
                /* Not where an application that has closed its standard output opens it again. */
                int copy = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
                if (copy < 0)
                        return negative_errno();
                client_set_fd(CLIENT_FD_KICK, copy);
        }

        return thread_start(control_main, NULL, CONTROL_STACK_SIZE);
}

void client_after_queue(void) {
        uint32_t life = CONTROL_NONE;

        if (environment.disabled || atomic_load(&client.control) == CONTROL_FAILED) {
                client_reap();
                return;
        }
        /* When it fails, the next queue tries again. */
        if (atomic_compare_exchange_strong(&client.control, &life, CONTROL_STARTED) &&
                        client_start_control() < 0)
                atomic_store(&client.control, CONTROL_NONE);
        client_kick();
}
