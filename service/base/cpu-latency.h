/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * How deep idle CPUs may sleep
 *
 * Between a doorbell and queues off the device lie two wake-ups, the service's and that of the client's control thread.
 * On a machine with nothing else to do both find their CPU asleep, and what it takes to leave a deep sleep state, or a
 * virtual machine's halt, is more than all that we do. The kernel has a word for who cannot wait for that: a process
 * that keeps /dev/cpu_dma_latency open says how long waking may take at most, and no CPU goes deeper. It costs power,
 * so it is asked for by CPULatency= only, and only while there is somebody to decide between. Closing takes it back,
 * and so does our end, whatever it is.
 */

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct CpuLatency {
        int fd;       /* -EBADF: nothing is asked for */
        uint64_t ns;  /* what was asked for last */
        bool refused; /* once: never tried again */
} CpuLatency;

#define CPU_LATENCY_NULL ((CpuLatency){.fd = -EBADF})

/* NSEC_INFINITY: as deep as they like. Does nothing when it is so already. `path` NULL: the kernel's. */
void cpu_latency_set(CpuLatency *c, const char *path, uint64_t ns);
void cpu_latency_done(CpuLatency *c);
