/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What a device is called, so that all processes on a host call it the same
 */

#include "shim/opencl/opencl-next.h"

#define OPENCL_DEVICE_ID_MAX 256U

typedef struct OpenclDevice {
        char id[OPENCL_DEVICE_ID_MAX]; /* "pci:0000:65:00.0", or "opencl:PLATFORM:DEVICE:N" */
        char name[OPENCL_DEVICE_ID_MAX];
        bool is_cpu;
} OpenclDevice;

/* Never fails: a device that tells nothing is called "opencl:unknown:unknown:0". Sub-devices count as their root
 * device. */
void opencl_device_describe(cl_device_id device, OpenclDevice *ret);
