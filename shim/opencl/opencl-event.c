/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Asks the runtime about an event
 */

#include "shim/opencl/opencl-event.h"

OpenclEventStatus opencl_event_status(cl_event event) {
        cl_int status = CL_QUEUED;
        if (opencl_next.clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status), &status, NULL) !=
                        CL_SUCCESS)
                return OPENCL_EVENT_FAILED; /* it will never report */
        if (status < CL_COMPLETE)
                return OPENCL_EVENT_FAILED;
        return status == CL_COMPLETE ? OPENCL_EVENT_COMPLETE : OPENCL_EVENT_PENDING;
}

cl_command_queue opencl_event_queue(cl_event event) {
        cl_command_queue queue = NULL;
        if (opencl_next.clGetEventInfo(event, CL_EVENT_COMMAND_QUEUE, sizeof(queue), &queue, NULL) != CL_SUCCESS)
                return NULL;
        return queue;
}
