/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The backend for queues that nothing can stop: everything succeeds, nothing happens
 *
 * With it, a queue's holds are its gate's alone: level 0.
 */

#include "hal/hal.h"

extern const HalOps hal_null_ops;
