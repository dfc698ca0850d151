/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * XSched's whole interface but for the platforms, which are in xsched/PLATFORM/hal.h
 */

#include "types.h"

#include "hint.h"
#include "xqueue.h"
