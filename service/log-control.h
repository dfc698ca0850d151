/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * org.freedesktop.LogControl1: `systemctl service-log-level xsched.service debug`
 */

#include <systemd/sd-bus.h>

/* At /org/freedesktop/LogControl1, for as long as the connection lives. Reading is everybody's; writing is root's and
 * the service's own user's (sd-bus checks that). */
int log_control_export(sd_bus *bus);
