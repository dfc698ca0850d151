/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The configuration of classes and devices
 */

#include "device.h"

/* Whether the policy accepts this combination of parameters. */
bool device_policy_accepts(const PolicyOps *ops, const PolicyConfig *config);

/* A device's settings that were made at run time, each layer above the former; NULL: none. So what was set for every
 * device until the next boot comes before what a single one has stored, as for groups. */
typedef struct DeviceLayers {
        const DeviceSettings *every_stored, *stored, *every_runtime, *runtime;
} DeviceLayers;

/* Layers that can be left out: their parameters make no sense with what is below them. */
enum {
        DEVICE_LAYER_EVERY_STORED = 1 << 0,
        DEVICE_LAYER_STORED = 1 << 1,
        DEVICE_LAYER_EVERY_RUNTIME = 1 << 2,
};

/* What is in force on a device: its policy, the parameters and the tuning. */
typedef struct DeviceEffective {
        const PolicyOps *ops;
        PolicyConfig config;
        DeviceTuning tuning;
        unsigned left_out; /* DEVICE_LAYER_* */
} DeviceEffective;

/* The layers of a device; NULL: it does not exist, or has nothing of its own until the next boot. */
DeviceLayers manager_device_layers(Manager *m, const char *id, const DeviceSettings *runtime);

/* Applies the layers to the configuration. Leaves out layers that do not fit, but never the last one: the policy then
 * accepts or refuses the result. */
void manager_device_effective(Manager *m, const char *id, const DeviceLayers *layers, DeviceEffective *ret);

/* Looks up a configured class for settings_resolve(). `userdata` is the Manager. */
const Settings *manager_lookup_class(const char *name, void *userdata);
