/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What devices do just now, measured when somebody asks
 *
 * Nothing is measured by itself: an idle service stays idle. To ask a GPU may take long, and a library that asks may do
 * anything, so a child (xsched-metrics) does it, while the loop goes on; callers of Measure get their answer when it
 * has ended. One child for each device at a time; what is younger than METRICS_FRESH_NS is not measured again.
 */

#include "service/core/device.h"

#define METRICS_FRESH_NS   (500 * NSEC_PER_MSEC)
#define METRICS_TIMEOUT_NS (5 * NSEC_PER_SEC)

/* Measure() of a device, whose answer may come later: what a method handler returns. */
int device_measure(Device *d, sd_bus_message *message, sd_bus_error *error);

/* The last measurement, as a{sv}; empty when there is none. */
int device_append_metrics(const Device *d, sd_bus_message *reply);

/* With the device: those who wait get an error. */
DeviceMetrics *device_metrics_free(DeviceMetrics *m);
