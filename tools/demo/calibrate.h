/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Calibration: how many rounds make a kernel of the wanted length on this device
 *
 * Done once, in a process of its own, while nothing else runs; All tenants of all phases then get the same number of
 * rounds, so phases differ only in who shares the device.
 */

#include "tools/demo/demo.h"

typedef struct Calibration {
        char device[128];
        char driver[128]; /* its version */
        bool gpu;
        int cpu; /* the CPU that is the device, or -1 */
        uint32_t rounds;
        uint64_t kernel_ns; /* measured with that many rounds */
} Calibration;

/* Default length of kernels. On a GPU they are short, as those of inference; on a CPU they are so long that the host's
 * own work hardly counts. */
#define CALIBRATE_GPU_NS (120 * NSEC_PER_USEC)
#define CALIBRATE_CPU_NS (460 * NSEC_PER_USEC)

/* The calibrator's process: prints the line that calibration_parse() reads. `kernel_ns` 0: the default above. */
int calibrate_main(const char *device, uint64_t kernel_ns);

/* In the parent: runs a calibrator. */
int calibrate(const char *device, uint64_t kernel_ns, Calibration *ret);
