/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Settings of a device that were made at run time
 */

#include "device-settings.h"

#define USEC_PER_HOUR UINT64_C(3600000000)

const DeviceKey device_keys[DEVICE_KEYS_N] = {
                {"Concurrency", 'u', 1, 65535, offsetof(PolicyConfig, concurrency)},
                {"TimeSliceUSec", 't', 100, USEC_PER_HOUR, offsetof(PolicyConfig, timeslice_ns)},
                {"StarveUSec", 't', 1000, USEC_PER_HOUR, offsetof(PolicyConfig, starve_ns)},
                {"StarveRunUSec", 't', 100, USEC_PER_HOUR, offsetof(PolicyConfig, starve_run_ns)},
                {"LingerUSec", 't', 0, 1000000, offsetof(PolicyConfig, linger_ns)},
                {"Threshold", 'u', 0, 65535, offsetof(PolicyConfig, threshold)},
};

const DeviceKey *device_key_find(const char *name) {
        for (size_t i = 0; i < DEVICE_KEYS_N; i++)
                if (streq(device_keys[i].name, name))
                        return device_keys + i;
        return NULL;
}

static unsigned key_bit(const DeviceKey *k) {
        return 1U << (k - device_keys);
}

uint64_t device_key_get(const DeviceKey *k, const PolicyConfig *c) {
        const char *at = (const char *) c + k->offset;
        uint64_t v;
        uint32_t u;

        if (k->type == 'u') {
                memcpy(&u, at, sizeof(u));
                return u;
        }
        memcpy(&v, at, sizeof(v));
        return v / NSEC_PER_USEC;
}

static void device_key_put(const DeviceKey *k, PolicyConfig *c, uint64_t v) {
        char *at = (char *) c + k->offset;
        uint32_t u = (uint32_t) v;

        if (k->type == 'u') {
                memcpy(at, &u, sizeof(u));
                return;
        }
        v *= NSEC_PER_USEC;
        memcpy(at, &v, sizeof(v));
}

int device_settings_set(DeviceSettings *s, const DeviceKey *k, uint64_t v) {
        if (v < k->min || v > k->max)
                return -ERANGE;
        device_key_put(k, &s->values, v);
        s->mask |= key_bit(k);
        return 0;
}

bool device_settings_has(const DeviceSettings *s, const DeviceKey *k) {
        return s->mask & key_bit(k);
}

bool device_settings_has_threshold(const DeviceSettings *s) {
        return device_settings_has(s, device_key_find("Threshold"));
}

int device_settings_set_preemption(DeviceSettings *s, const char *name) {
        int v = preemption_from_string(name);
        if (v < 0)
                return -EINVAL;
        s->preemption = (Preemption) v;
        s->has_preemption = true;
        return 0;
}

void device_settings_apply(const DeviceSettings *s, const PolicyOps **ops, PolicyConfig *c) {
        if (s->ops)
                *ops = s->ops;
        for (size_t i = 0; i < DEVICE_KEYS_N; i++)
                if (device_settings_has(s, device_keys + i))
                        device_key_put(device_keys + i, c, device_key_get(device_keys + i, &s->values));
}

void device_settings_merge(DeviceSettings *s, const DeviceSettings *from) {
        device_settings_apply(from, &s->ops, &s->values);
        s->mask |= from->mask;
        if (!from->has_preemption)
                return;
        s->has_preemption = true;
        s->preemption = from->preemption;
}
