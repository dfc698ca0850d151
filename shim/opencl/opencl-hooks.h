/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The functions of the layer in front of the runtime: see opencl-entries.h
 */

#include "opencl-next.h"

extern _hidden_ const OpenclHook opencl_hooks[];
extern _hidden_ const size_t opencl_n_hooks;

/* The name of no function. When clGetExtensionFunctionAddress() is asked for it, our hook returns the name itself. */
extern _hidden_ const char opencl_probe[];
