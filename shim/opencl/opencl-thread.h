/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The state of an application's thread inside our functions
 */

#include <stdbool.h>

#include "common/macro.h"

typedef struct OpenclThread {
        unsigned in_callback; /* the thread belongs to the runtime, which must not wait */
        unsigned depth;       /* preloaded functions entered */
        bool resolving;
} OpenclThread;

extern _hidden_ __thread OpenclThread opencl_thread __attribute__((tls_model("initial-exec")));
