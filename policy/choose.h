/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The decisions of every policy
 */

#include "core.h"

uint64_t core_dispatch(Policy *p, uint64_t now_ns);
