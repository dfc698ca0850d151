/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The tables of the runtime's functions
 */

#include "shim/opencl/opencl-next.h"

cl_icd_dispatch opencl_next;
