/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * check: variables of the environment whose values are ignored
 */

#include "tools/xschedctl/xschedctl-check-findings.h"

/* Those that libxsched reads; the layer for CUDA has some of its own. */
void check_variables(Check *k);
