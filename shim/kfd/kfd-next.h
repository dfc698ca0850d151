/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The HSA runtime behind the layer, by the caller
 *
 * A process may have several runtimes: one of a Python wheel beside the system's, which came with MPI. Each caller must
 * get the runtime that it would have without us, because it has made its objects there. The loader's rules decide which
 * one that is. They are evaluated once for each call site:
 *
 * A runtime that was loaded when the program started comes first for every caller. Otherwise it is the runtime to which
 * the loader has bound the caller's other HSA functions, whatever has been loaded since. Otherwise it is the one in the
 * global scope now, then one that the caller's own libraries define, then any loaded runtime.
 */

#include "shim/kfd/hsa.h"

typedef struct KfdRuntime {
#define DECLARE(name) typeof(&name) name;
        HSA_FUNCTIONS(DECLARE)
#undef DECLARE
} KfdRuntime;

/* Returns the runtime of a caller, or NULL when kfd_runtime() has not been called for it yet. Takes no lock; may be
 * called from signal handlers. */
const KfdRuntime *kfd_runtime_known(const void *caller);

/* Returns the runtime of a caller: never NULL, but its functions may be. Not under kfd_lock(), because it waits for the
 * dynamic linker's lock. `spare` is filled in and returned when the runtime cannot be remembered, so that no launch is
 * lost. */
const KfdRuntime *kfd_runtime(const void *caller, KfdRuntime *spare);
