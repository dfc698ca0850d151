/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A marker of our own, which completes when everything enqueued before it has completed
 */

#include "shim/opencl/opencl-next.h"

static inline cl_int opencl_marker_enqueue(cl_command_queue handle, cl_event *ret) {
        if (opencl_next.clEnqueueMarkerWithWaitList)
                return opencl_next.clEnqueueMarkerWithWaitList(handle, 0, NULL, ret);
        return opencl_next.clEnqueueMarker(handle, ret);
}
