/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Queries of the runtime about an event
 */

#include "shim/opencl/opencl-next.h"

typedef enum OpenclEventStatus {
        OPENCL_EVENT_PENDING,
        OPENCL_EVENT_COMPLETE,
        OPENCL_EVENT_FAILED,
} OpenclEventStatus;

OpenclEventStatus opencl_event_status(cl_event event);
cl_command_queue opencl_event_queue(cl_event event); /* NULL: a user event */
