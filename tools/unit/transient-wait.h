/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Waits until a transient service has ended
 */

#include "transient-unit.h"

/* Until the service has ended: its exit status, or 255 when a signal ended it, as systemd-run has it. SIGINT is passed
 * on to what runs in the unit; SIGTERM and SIGHUP stop the unit, the second time without waiting for it. */
int transient_service_wait(TransientUnit *u, sd_event *event, PtyForward *pty);
