/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Privileged holds of KFD: the system calls
 */

#include "kfd-privileged.h"

/* The table of the real system. */
extern const KfdTargetSys kfd_target_sys;
