/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Settings of a device that were made at run time: its policy, the policy's parameters, and how far holds reach
 *
 * Like Settings, it names some keys and leaves the others to the configuration. Pure.
 */

#include "common/macro.h"
#include "policy/policy.h"

typedef struct DeviceKey {
        const char *name;  /* on the bus */
        char type;         /* on the bus: 'u', or 't' for microseconds */
        uint64_t min, max; /* in the unit of the bus */
        size_t offset;     /* in PolicyConfig */
} DeviceKey;

#define DEVICE_KEYS_N 6U
extern const DeviceKey device_keys[DEVICE_KEYS_N];

const DeviceKey *device_key_find(const char *name);

typedef struct DeviceSettings {
        const PolicyOps *ops; /* NULL: not named */
        PolicyConfig values;
        unsigned mask; /* 1 << index in device_keys */
        bool has_preemption;
        Preemption preemption;
} DeviceSettings;

#define DEVICE_SETTINGS_NULL ((DeviceSettings){0})

static inline bool device_settings_is_empty(const DeviceSettings *s) {
        return !s->ops && s->mask == 0 && !s->has_preemption;
}

/* A value in the unit of the bus. -ERANGE when it is out of range. */
int device_settings_set(DeviceSettings *s, const DeviceKey *k, uint64_t v);
bool device_settings_has(const DeviceSettings *s, const DeviceKey *k);
bool device_settings_has_threshold(const DeviceSettings *s);

/* A value of a configuration, in the unit of the bus. */
uint64_t device_key_get(const DeviceKey *k, const PolicyConfig *c);

/* By its name. -EINVAL when there is none such. */
int device_settings_set_preemption(DeviceSettings *s, const char *name);

/* The keys that `from` names replace those of *s, or the values in force. */
void device_settings_merge(DeviceSettings *s, const DeviceSettings *from);
void device_settings_apply(const DeviceSettings *s, const PolicyOps **ops, PolicyConfig *c);
