/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Limits how deeply idle CPUs sleep
 */

#include <fcntl.h>

#include "common/macro.h"
#include "common/time-util.h"
#include "cpu-latency.h"
#include "log.h"

#define PATH "/dev/cpu_dma_latency"

void cpu_latency_done(CpuLatency *c) {
        c->fd = safe_close(c->fd);
}

/* The kernel takes whole microseconds; round down, because rounding up would ask for less than was meant. */
static int cpu_latency_ask(CpuLatency *c, const char *path, uint64_t ns) {
        int32_t usec = (int32_t) MIN(ns / NSEC_PER_USEC, (uint64_t) INT32_MAX);

        if (c->fd < 0)
                c->fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
        if (c->fd < 0)
                return negative_errno();
        ssize_t n = write(c->fd, &usec, sizeof(usec));
        return n == (ssize_t) sizeof(usec) ? 0 : n < 0 ? negative_errno() : -EIO;
}

void cpu_latency_set(CpuLatency *c, const char *path, uint64_t ns) {
        if (ns == NSEC_INFINITY) {
                cpu_latency_done(c);
                return;
        }
        if (c->refused || (c->fd >= 0 && ns == c->ns))
                return;
        int r = cpu_latency_ask(c, path ?: PATH, ns);
        if (r < 0) {
                log_warning_errno(r, "CPULatency= cannot be asked for by %s, ignoring it: %m", path ?: PATH);
                cpu_latency_done(c);
                c->refused = true;
                return;
        }
        c->ns = ns;
}
