/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Privileged holds of KFD, by the debugger interface: see kfd-privileged.h
 */

#include "kfd-privileged.h"

extern const KfdPrivilegedOps kfd_debug_ops;

/* On the tracing thread. */
int kfd_debug_suspend(KfdTarget *t);
int kfd_debug_resume(KfdTarget *t);
bool kfd_debug_is_suspended(const KfdTarget *t, uint32_t id);
