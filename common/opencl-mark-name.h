/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The name of a page in /proc/PID/maps (shim/opencl/opencl-mark.h): a loader of OpenCL has taken our layer, or an
 * application's calls come by what was preloaded. */
#define OPENCL_MARK "xsched-opencl-in-force"
