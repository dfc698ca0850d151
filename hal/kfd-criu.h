/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Privileged holds of KFD, by CRIU_OP: see kfd-privileged.h
 */

#include "kfd-privileged.h"

extern const KfdPrivilegedOps kfd_criu_ops;
