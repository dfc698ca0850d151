/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Names on the bus: of xschedd, the bus driver, systemd and polkit; and flags of methods of org.xsched.Scheduler
 */

#include <stdint.h>

/* xschedd; dbus/org.xsched.Scheduler.xml documents the interfaces. */
#define BUS_NAME      "org.xsched.Scheduler"
#define BUS_PATH      "/org/xsched/Scheduler"
#define BUS_INTERFACE "org.xsched.Scheduler"
#define BUS_ERROR(e)  "org.xsched.Scheduler.Error." e

/* The bus driver, and the interfaces that every service has. */
#define DRIVER_NAME      "org.freedesktop.DBus"
#define DRIVER_PATH      "/org/freedesktop/DBus"
#define DRIVER_INTERFACE "org.freedesktop.DBus"
#define DRIVER_ERROR(e)  "org.freedesktop.DBus.Error." e
#define BUS_PROPERTIES   "org.freedesktop.DBus.Properties"
#define BUS_PEER         "org.freedesktop.DBus.Peer"
#define BUS_INTROSPECT   "org.freedesktop.DBus.Introspectable"
#define BUS_OBJECTS      "org.freedesktop.DBus.ObjectManager"

/* By these names a bus library tells its own program of the connection, as if by a message. */
#define BUS_LOCAL      "org.freedesktop.DBus.Local"
#define BUS_LOCAL_PATH "/org/freedesktop/DBus/Local"

/* systemd, the system's manager or a user's. */
#define SYSTEMD_NAME    "org.freedesktop.systemd1"
#define SYSTEMD_PATH    "/org/freedesktop/systemd1"
#define SYSTEMD_UNITS   "/org/freedesktop/systemd1/unit"
#define SYSTEMD_MANAGER "org.freedesktop.systemd1.Manager"
#define SYSTEMD_UNIT    "org.freedesktop.systemd1.Unit"
#define SYSTEMD_SERVICE "org.freedesktop.systemd1.Service"

/* polkit */
#define POLKIT_NAME      "org.freedesktop.PolicyKit1"
#define POLKIT_PATH      "/org/freedesktop/PolicyKit1/Authority"
#define POLKIT_INTERFACE "org.freedesktop.PolicyKit1.Authority"

/* SetGroup, Group.Set */
#define SET_FLAG_PERSISTENT (UINT64_C(1) << 0) /* kept over a reboot */

/* CreateJob */
#define JOB_FLAG_CGROUP (UINT64_C(1) << 0) /* its group is the cgroup of the process, in place of one of its own */
#define JOB_FLAG_CHECK  (UINT64_C(1) << 1) /* everything is checked, nothing is made */

/* HoldPriority */
#define HOLD_FLAG_DESCENDANTS (UINT64_C(1) << 0) /* includes processes that the caller starts */
