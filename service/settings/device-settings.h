/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Settings of a device that were made at run time: its policy, the policy's parameters, and how far holds reach
 *
 * Like Settings, it names some keys and leaves the others to the configuration. Pure.
 */

#include "accounting.h"
#include "common/macro.h"
#include "policy/policy.h"

#define DEVICE_ID_MAX 128U

/* "all" and what begins with "device:" is no id: in what people type, and in ListSettings, it would name something
 * else. */
bool device_id_is_valid(const char *id);

typedef struct DeviceKey {
        const char *name;  /* on the bus */
        char type;         /* on the bus: 'u', or 't' for microseconds */
        uint64_t min, max; /* in the unit of the bus */
        size_t offset;     /* in PolicyConfig */
} DeviceKey;

#define DEVICE_KEYS_N 6U
extern const DeviceKey device_keys[DEVICE_KEYS_N];

/* Ranges of both the bus and the configuration files; spans in nanoseconds. */
#define DEVICE_CONCURRENCY_MAX 1024U
#define DEVICE_TURN_MIN        (100 * NSEC_PER_USEC) /* a turn: TimeSlice, StarveRun */
#define DEVICE_TURN_MAX        (10 * NSEC_PER_SEC)
#define DEVICE_STARVE_MIN      NSEC_PER_MSEC
#define DEVICE_STARVE_MAX      (3600 * NSEC_PER_SEC)
#define DEVICE_LINGER_MAX      (100 * NSEC_PER_MSEC)

const DeviceKey *device_key_find(const char *name);

/* The range in words, "a time span, 100us..10s", for the message that refuses a value. Returns buf. */
const char *device_key_range(const DeviceKey *k, char *buf, size_t size);

typedef struct DeviceSettings {
        const PolicyOps *ops; /* NULL: not named */
        PolicyConfig values;
        unsigned mask; /* 1 << index in device_keys */
        bool has_preemption;
        Preemption preemption;
        bool has_accounting;
        Accounting accounting;
} DeviceSettings;

#define DEVICE_SETTINGS_NULL ((DeviceSettings){0})

static inline bool device_settings_is_empty(const DeviceSettings *s) {
        return !s->ops && s->mask == 0 && !s->has_preemption && !s->has_accounting;
}

/* A value in the unit of the bus. -ERANGE when it is out of range. */
int device_settings_set(DeviceSettings *s, const DeviceKey *k, uint64_t v);
bool device_settings_has(const DeviceSettings *s, const DeviceKey *k);
bool device_settings_equal(const DeviceSettings *a, const DeviceSettings *b);
bool device_settings_has_threshold(const DeviceSettings *s);

/* A value of a configuration, in the unit of the bus. */
uint64_t device_key_get(const DeviceKey *k, const PolicyConfig *c);

/* Set the value by its name. -EINVAL: there is no such value. */
int device_settings_set_preemption(DeviceSettings *s, const char *name);
int device_settings_set_accounting(DeviceSettings *s, const char *name);

/* A set of keys to forget: a bit for each of device_keys by its index, and these. */
#define DEVICE_FORGET_POLICY     (1U << DEVICE_KEYS_N)
#define DEVICE_FORGET_PREEMPTION (1U << (DEVICE_KEYS_N + 1))
#define DEVICE_FORGET_ACCOUNTING (1U << (DEVICE_KEYS_N + 2))

/* Returns the set of keys that are set. */
unsigned device_settings_keys(const DeviceSettings *s);

/* Adds the key, by its name on the bus, to *keys. -ENOENT when there is no such key. */
int device_forget_from_string(const char *key, unsigned *keys);

/* From now on the configuration decides these keys. */
void device_settings_forget(DeviceSettings *s, unsigned keys);

/* Applies the keys that `from` sets: to *s, or to the values in force. */
void device_settings_merge(DeviceSettings *s, const DeviceSettings *from);
void device_settings_apply(const DeviceSettings *s, const PolicyOps **ops, PolicyConfig *c);
