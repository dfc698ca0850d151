/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Device metrics: what devices do just now, measured on request
 *
 * Nothing is measured without a request: an idle service stays idle. Asking a GPU may take long, and its library may do
 * anything, so a child (xsched-metrics) does it while the loop goes on; callers of Measure get their answer when the
 * child has ended. Each device has one child at a time; a measurement younger than METRICS_FRESH_NS is used again.
 */

#include <systemd/sd-bus.h>

#include "service/core/device.h"

#define METRICS_FRESH_NS   (500 * NSEC_PER_MSEC)
#define METRICS_TIMEOUT_NS (5 * NSEC_PER_SEC)

/* Measure() of a device; the answer may come later. Returns the method handler's result. */
int device_measure(Device *d, sd_bus_message *message, sd_bus_error *error);

/* Appends the last measurement as a{sv}; empty when there is none. */
int device_append_metrics(const Device *d, sd_bus_message *reply);

/* Freed with the device: waiting callers get an error. */
DeviceMetrics *device_metrics_free(DeviceMetrics *m);
