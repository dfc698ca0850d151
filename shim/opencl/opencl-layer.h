/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The OpenCL layer: the table of functions that the loader calls
 */

#include "opencl-next.h"

/* Fills opencl_next from a table with n entries, unless it is filled already, and makes *ret the same table with our
 * hooks in it. *ret may hold more entries than n: the rest is left alone. */
void opencl_hook_dispatch(const cl_icd_dispatch *target, size_t n, cl_icd_dispatch *ret);
