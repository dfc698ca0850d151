/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Others in front of libcuda: see common/cuda-others.h
 */

#include <stdbool.h>

/* Returns whether the program has loaded another vendor's library that shares GPUs. Then launches are counted, and
 * neither held nor tracked. */
bool cuda_others_are_there(void);

/* Returns such a library's function of that name, if it comes behind ours and before libcuda's, so that it would be
 * called without us; or NULL. `lookup`: libc's dlsym(). */
void *cuda_others_function(void *(*lookup)(void *handle, const char *name), const char *name);
