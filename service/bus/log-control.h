/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * org.freedesktop.LogControl1: `systemctl service-log-level xsched.service debug`
 */

#include "service/core/manager.h"

/* At /org/freedesktop/LogControl1, for as long as the connection lives. Every user may read; writing needs
 * org.xsched.manage. */
int log_control_export(Manager *m);
