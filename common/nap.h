/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Sleeps in calls of an application that are no cancellation points, as a launch is none: nanosleep() is one
 */

#include <stdint.h>

/* Sleeps for so many nanoseconds, or until a signal comes. Sets errno. */
void nap(uint64_t ns);
