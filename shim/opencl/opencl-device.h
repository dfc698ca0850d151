/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The id of a device, which has to be the same in all processes of a host
 */

#include "shim/opencl/opencl-next.h"

#define OPENCL_DEVICE_ID_MAX 256U

typedef struct OpenclDevice {
        char id[OPENCL_DEVICE_ID_MAX]; /* "pci:0000:65:00.0", or "opencl:PLATFORM:DEVICE:N" */
        char name[OPENCL_DEVICE_ID_MAX];
        bool is_cpu, is_nvidia;
} OpenclDevice;

/* Describes a device. Never fails: a device without information is "opencl:unknown:unknown:0". Sub-devices count as
 * their root device. */
void opencl_device_describe(cl_device_id device, OpenclDevice *ret);
