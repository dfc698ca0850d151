/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The configuration of classes and devices
 */

#include "device.h"

/* Whether the policy accepts this combination of parameters. */
bool device_policy_accepts(const PolicyOps *ops, const PolicyConfig *config);

/* The configured policy, its parameters and the tuning of a device. */
const PolicyOps *manager_device_config(Manager *m, const char *id, PolicyConfig *ret, DeviceTuning *ret_tuning);

/* Looks up a configured class for settings_resolve(). `userdata` is the Manager. */
const Settings *manager_lookup_class(const char *name, void *userdata);
