/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Functions of extensions, which applications look up by name
 *
 * Each platform has its own, so a hook finds the one to call by the platform of the object that it is called for.
 */

#include "shim/opencl/opencl-next.h"

/* Returns the hook for the function `name` of a platform (NULL: any), or `found`, the runtime's answer, when there is
 * no hook. */
void *opencl_extension_hook(cl_platform_id platform, const char *name, void *found);
