/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The HSA runtime behind the layer, by who calls
 *
 * A process may have several: a Python wheel's own beside the system's, which came with MPI. Each caller has to get the
 * one that it would have without us, for it has made its objects there. Which one that is goes by the loader's rules,
 * and is asked once for each place that calls:
 *
 * What was there when the program started comes first for everybody. Else it is the runtime to which the loader has
 * bound the caller's other functions of HSA: that is what the rules have led to, whatever has been loaded since. Else
 * what is in the global scope by now, what the caller's own libraries define, or any runtime that is loaded.
 */

#include "shim/kfd/hsa.h"

typedef struct KfdRuntime {
#define DECLARE(name) typeof(&name) name;
        HSA_FUNCTIONS(DECLARE)
#undef DECLARE
} KfdRuntime;

/* NULL: nobody has asked for this caller yet. Takes no lock, and is fit for signal handlers. */
const KfdRuntime *kfd_runtime_known(const void *caller);

/* Never NULL, but the functions may be. Not under kfd_lock(): it waits for the dynamic linker's. `spare` is filled in
 * where there is no memory to remember more runtimes, or no room: nobody's launch is lost for that. */
const KfdRuntime *kfd_runtime(const void *caller, KfdRuntime *spare);
