/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What the service tells its manager (systemd, or xsched-session): sd_notify(3)
 *
 * None of it can fail in a way that matters: without $NOTIFY_SOCKET nobody listens.
 */

#include "common/macro.h"

void notify_ready(const char *status);
void notify_reloading(void);
void notify_stopping(void);
void notify_status(const char *format, ...) _printf_(1, 2);
