/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Flags of methods of org.xsched.Scheduler, as its interface XML documents them
 */

#include <stdint.h>

/* SetGroup, Group.Set */
#define SET_FLAG_PERSISTENT (UINT64_C(1) << 0) /* kept over a reboot */

/* CreateJob */
#define JOB_FLAG_CGROUP                                                                                     \
        (UINT64_C(1) << 0) /* its group is the cgroup of the process, in place of one of its own */
#define JOB_FLAG_CHECK (UINT64_C(1) << 1) /* everything is checked, nothing is made */

/* HoldPriority */
#define HOLD_FLAG_DESCENDANTS (UINT64_C(1) << 0) /* for what the caller's process starts, too */
