/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The life of a command queue: the application makes, retains and releases it
 */

#include "shim/opencl/opencl-queue.h"

/* Records a new queue. On any failure the queue runs unscheduled. */
void opencl_queue_add(cl_command_queue handle, cl_device_id device, cl_command_queue_properties properties,
                int32_t priority_hint);

/* The same, with the application's list of properties; NULL: none. */
void opencl_queue_add_with(cl_command_queue queue, cl_device_id device, const cl_queue_properties *properties);

/* Count the application's references. opencl_queue_released() is called before the native release. It returns true when
 * the caller must not release: another thread has pinned the handle, and releases it later. */
void opencl_queue_retained(cl_command_queue handle);
bool opencl_queue_released(cl_command_queue handle);

/* The runtime is being unloaded, after opencl_own_stop(): reports all launches in flight as complete without asking,
 * and lets queues pass as without us from now on. The records stay, because threads of the application may still use
 * them. */
void opencl_queue_forget_all(void);
