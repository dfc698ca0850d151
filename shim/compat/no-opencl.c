/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Takes the place of opencl.c in builds without OpenCL's headers
 */

#include "include/xsched-compat/xsched/opencl/hal.h"
#include "shim/compat/compat.h"

_public_
XResult OclQueueCreate(HwQueueHandle *hwq, cl_command_queue cmdq) {
        return hwq && cmdq ? kXSchedErrorNotSupported : kXSchedErrorInvalidValue;
}
