/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * CPU latency: how deep idle CPUs may sleep
 *
 * Two wake-ups lie between a doorbell and a queue that is off the device: the service's, and the client's control
 * thread's. On an otherwise idle machine both find their CPU asleep, and leaving a deep sleep state, or a virtual
 * machine's halt, takes longer than all of our work. A process that keeps /dev/cpu_dma_latency open tells the kernel
 * how long a wake-up may take at most, and no CPU sleeps deeper. This costs power, so it is done only with CPULatency=,
 * and only while several entities want the device. Closing the file ends it, and so does the end of the process.
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

/* Asks for wake-ups of at most `ns`; NSEC_INFINITY: takes the request back. Does nothing when that is in force already.
 * `path` NULL: the kernel's file. */
void cpu_latency_set(CpuLatency *c, const char *path, uint64_t ns);
void cpu_latency_done(CpuLatency *c);
