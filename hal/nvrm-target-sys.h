/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Privileged holds of NVIDIA's kernel driver: the system calls
 */

#include "nvrm-privileged.h"

/* The table of the real system. */
extern const NvrmTargetSys nvrm_target_sys;
