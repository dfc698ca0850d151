/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * In place of opencl.c where there were no headers of OpenCL to build it with
 */

#include "include/xsched-compat/xsched/opencl/hal.h"
#include "shim/compat/compat.h"

_public_
XResult OclQueueCreate(HwQueueHandle *hwq, cl_command_queue cmdq) {
        return hwq && cmdq ? kXSchedErrorNotSupported : kXSchedErrorInvalidValue;
}
