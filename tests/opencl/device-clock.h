/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Device clock: what kernels read when they begin and end, and how it relates to the host's clock
 *
 * A kernel's source calls device_clock(), and writes the times of launch number n to stamps[n % STAMPS * 2] and the
 * element after it. Unlike profiling events, that costs a launch nothing on the host.
 */

#include "cl-test.h"

#define DEVICE_STAMPS (1U << 21)

typedef enum DeviceClockKind {
        DEVICE_CLOCK_NONE,   /* the compiler offers none; stamps are zero */
        DEVICE_CLOCK_NVIDIA, /* the global timer, in nanoseconds */
        DEVICE_CLOCK_TSC,    /* the kernel runs on a CPU */
        DEVICE_CLOCK_HOST,   /* the paced device (paced-opencl.c), whose clock is the host's */
} DeviceClockKind;

typedef struct DeviceStamp {
        uint64_t begin, end;
} DeviceStamp;

/* The same moment by both clocks. */
typedef struct DeviceMoment {
        uint64_t device, host_ns;
} DeviceMoment;

typedef struct DeviceClock {
        DeviceClockKind kind;
        cl_mem stamps, now;
        cl_kernel tick;
} DeviceClock;

cl_program device_clock_build(DeviceClock *clock, const char *source);
void device_clock_close(DeviceClock *clock);

DeviceMoment device_clock_moment(DeviceClock *clock, cl_command_queue queue);

/* How many nanoseconds one of the device's units is. */
double device_clock_unit(const DeviceClock *clock, DeviceMoment before, DeviceMoment after);

/* The device's time at this moment of the host, by two moments around it. */
uint64_t device_clock_at(DeviceMoment before, DeviceMoment after, uint64_t host_ns);

/* The stamps of launches [from, to). NULL: there are none, or more than are kept. The caller frees. */
DeviceStamp *device_clock_read(DeviceClock *clock, cl_command_queue queue, uint32_t from, uint32_t to);

/* The time between two times of the device in which these launches ran: their times from begin to end, added up. */
uint64_t device_stamps_sum(const DeviceStamp *stamps, uint32_t n, uint64_t from, uint64_t to);

/* Writes the spans in which the device had these launches one soon after the other, as pairs of 64-bit numbers: first
 * the window, then the spans. */
void device_stamps_write(const DeviceStamp *stamps, uint32_t n, DeviceStamp window, uint64_t soon, const char *path);
