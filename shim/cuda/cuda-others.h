/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Others in front of libcuda: see common/cuda-others.h
 */

#include <stdbool.h>

/* Returns whether the program has loaded another vendor's library that shares GPUs. Then launches are counted, and
 * neither held nor tracked. */
bool cuda_others_are_there(void);
