/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * XSched's interface, all of it but for the platforms: xsched/PLATFORM/hal.h
 */

#include "types.h"

#include "hint.h"
#include "xqueue.h"
