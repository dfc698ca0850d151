/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What XSched's environment variables said when the library was loaded
 */

#include "common/auto-xqueue.h"

const AutoXQueue *environment(void);
