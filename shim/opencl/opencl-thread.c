/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the calling thread is doing
 */

#include "shim/opencl/opencl-thread.h"

__thread OpenclThread opencl_thread __attribute__((tls_model("initial-exec")));
