/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The table of functions, of the layer, and of others who call the runtime
 */

#include "shim/opencl/opencl-next.h"

cl_icd_dispatch opencl_next;
