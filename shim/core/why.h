/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The reason why this process runs unscheduled, visible from outside
 *
 * Only this process knows the answer of the bus or the service. It publishes the reason as the name of an inaccessible
 * mapping, which its user and root read in /proc/PID/maps. That costs no descriptor, and no call of any other process.
 * A child does not inherit it.
 */

/* For the control thread, and for who starts it: one at a time. */
void why_set(const char *what, const char *detail);
void why_clear(void);
