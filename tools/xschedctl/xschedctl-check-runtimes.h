/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * check: the runtimes of a process, and the layers in front of them
 */

#include "xschedctl-check-findings.h"

/* Names the runtimes that the process has loaded, whether xsched is in front of each, and which other libraries are. */
void check_runtimes(Check *k, const char *maps);
