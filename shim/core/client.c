/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * This process as a client: environment, state, descriptors, hints
 */

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

#include "common/macro.h"
#include "common/own-fd.h"
#include "shim/core/auto-hints.h"
#include "shim/core/client.h"
#include "shim/core/complaints.h"

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
        _Atomic int fds[_CLIENT_FD_MAX];        /* 0: none */
        _Atomic uint64_t marks[_CLIENT_FD_MAX]; /* of those: own-fd.h */

        HintSet hints;
} client;

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

uint64_t client_queues(void) {
        return atomic_load_explicit(&client.n_queues, memory_order_relaxed);
}

/* Stored off by one, so that zeroed memory says "none". */
void client_set_fd(ClientFd which, int fd) {
        PROTECT_ERRNO;

        atomic_store_explicit(&client.marks[which], own_fd_mark(fd), memory_order_relaxed);
        atomic_store_explicit(&client.fds[which], fd < 0 ? 0 : fd + 1, memory_order_seq_cst);
}

int client_fd(ClientFd which) {
        int stored = atomic_load_explicit(&client.fds[which], memory_order_seq_cst);
        return stored > 0 ? stored - 1 : -EBADF;
}

bool client_has_fd(ClientFd which) {
        return own_fd_is(client_fd(which), atomic_load_explicit(&client.marks[which], memory_order_relaxed));
}

void client_close_fd(ClientFd which) {
        if (client_has_fd(which))
                safe_close(client_fd(which));
        client_set_fd(which, -EBADF);
}

int client_renew_kick(void) {
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

void client_kick(void) {
        uint64_t one = 1;
        int fd = client_fd(CLIENT_FD_KICK);

        if (client_has_fd(CLIENT_FD_KICK)) {
                PROTECT_ERRNO;
                (void) syscall(SYS_write, fd, &one, sizeof(one));
        }
}

void client_forget(void) {
        for (ClientFd i = 0; i < _CLIENT_FD_MAX; i++)
                client_close_fd(i);
        atomic_store(&client.state, XSCHED_STATE_OFF);
        client_set_queues(0);
}

/* --- hints --- */

HintSet *client_hints(void) {
        return &client.hints;
}

/* --- environment --- */

/* A preloaded library has read the environment before us, when this library was not loaded yet. */
extern const ClientEnvironment xsched_early_environment __attribute__((weak, visibility("default")));

static void read_hint(const char *name, EnvironmentNumber n, const char *text) {
        int64_t value;

        if (environment_number(n, text, &value))
                (void) hints_set(&client.hints, name, value);
}

/* Runs when the library is loaded, and not with the first queue: another thread of the application may change the
 * environment meanwhile. */
__attribute__((constructor)) static void client_read_environment(void) {
        PROTECT_ERRNO;

        if (&xsched_early_environment && xsched_early_environment.size == sizeof(environment))
                environment = xsched_early_environment;
        else
                environment_read(&environment);
        auto_hints_read(&client.hints);
        environment_check(&complaints_source);
        read_hint("Priority", ENVIRONMENT_PRIORITY, environment.priority);
        read_hint("Weight", ENVIRONMENT_WEIGHT, environment.weight);
}
