/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Waits until a transient service has ended
 */

#include "transient-unit.h"

/* Waits until the service has ended. Returns its exit status, or 255 when a signal ended it, as systemd-run does.
 * SIGINT is passed on to the unit's processes. SIGTERM and SIGHUP stop the unit; a second one ends the wait. */
int transient_service_wait(TransientUnit *u, sd_event *event, PtyForward *pty);
