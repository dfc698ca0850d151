/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Functions of extensions, which applications look up by name
 *
 * Each platform has its own, so a hook finds the one to call by the platform of the object that it is called for.
 */

#include "shim/opencl/opencl-next.h"

/* The hook for the function `name` of a platform (NULL: of whichever), or `found` itself, the runtime's answer. */
void *opencl_extension_hook(cl_platform_id platform, const char *name, void *found);

/* A queue was made with a list of properties. */
void opencl_queue_add_with(
                cl_command_queue queue, cl_device_id device, const cl_queue_properties *properties);
