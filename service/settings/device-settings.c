/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Settings of a device that were made at run time
 */

#include <inttypes.h>
#include <stdio.h>

#include "common/parse-util.h"
#include "device-settings.h"

#define USEC(ns) ((ns) / NSEC_PER_USEC)

const DeviceKey device_keys[DEVICE_KEYS_N] = {
                {"Concurrency", 'u', 1, DEVICE_CONCURRENCY_MAX, offsetof(PolicyConfig, concurrency)},
                {"TimeSliceUSec", 't', USEC(DEVICE_TURN_MIN), USEC(DEVICE_TURN_MAX),
                                offsetof(PolicyConfig, timeslice_ns)},
                {"StarveUSec", 't', USEC(DEVICE_STARVE_MIN), USEC(DEVICE_STARVE_MAX),
                                offsetof(PolicyConfig, starve_ns)},
                {"StarveRunUSec", 't', USEC(DEVICE_TURN_MIN), USEC(DEVICE_TURN_MAX),
                                offsetof(PolicyConfig, starve_run_ns)},
                {"LingerUSec", 't', 0, USEC(DEVICE_LINGER_MAX), offsetof(PolicyConfig, linger_ns)},
                {"Threshold", 'u', 0, 65535, offsetof(PolicyConfig, threshold)},
};

bool device_id_is_valid(const char *id) {
        static const char ok[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:_+-";

        if (isempty(id) || streq(id, "all") || startswith(id, "device:"))
                return false;
        size_t n = strlen(id);
        return n <= DEVICE_ID_MAX && strspn(id, ok) == n;
}

const DeviceKey *device_key_find(const char *name) {
        for (size_t i = 0; i < DEVICE_KEYS_N; i++)
                if (streq(device_keys[i].name, name))
                        return device_keys + i;
        return NULL;
}

static unsigned key_bit(const DeviceKey *k) {
        return 1U << (k - device_keys);
}

const char *device_key_range(const DeviceKey *k, char *buf, size_t size) {
        char min[32], max[32];

        if (k->type == 'u')
                (void) snprintf(buf, size, "%" PRIu64 "..%" PRIu64, k->min, k->max);
        else
                (void) snprintf(buf, size, "a time span, %s..%s", format_nsec(min, sizeof(min), k->min * NSEC_PER_USEC),
                                format_nsec(max, sizeof(max), k->max * NSEC_PER_USEC));
        return buf;
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

int device_settings_set_accounting(DeviceSettings *s, const char *name) {
        int v = accounting_from_string(name);
        if (v < 0)
                return -EINVAL;
        s->accounting = (Accounting) v;
        s->has_accounting = true;
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
        if (from->has_preemption) {
                s->has_preemption = true;
                s->preemption = from->preemption;
        }
        if (from->has_accounting) {
                s->has_accounting = true;
                s->accounting = from->accounting;
        }
}

int device_forget_from_string(const char *key, unsigned *keys) {
        const DeviceKey *k = device_key_find(key);

        if (streq(key, "Policy"))
                *keys |= DEVICE_FORGET_POLICY;
        else if (streq(key, "Preemption"))
                *keys |= DEVICE_FORGET_PREEMPTION;
        else if (streq(key, "Accounting"))
                *keys |= DEVICE_FORGET_ACCOUNTING;
        else if (k)
                *keys |= key_bit(k);
        else
                return -ENOENT;
        return 0;
}

unsigned device_settings_keys(const DeviceSettings *s) {
        return s->mask | (s->ops ? DEVICE_FORGET_POLICY : 0) | (s->has_preemption ? DEVICE_FORGET_PREEMPTION : 0) |
                        (s->has_accounting ? DEVICE_FORGET_ACCOUNTING : 0);
}

bool device_settings_equal(const DeviceSettings *a, const DeviceSettings *b) {
        if (device_settings_keys(a) != device_settings_keys(b) || a->ops != b->ops)
                return false;
        for (size_t i = 0; i < DEVICE_KEYS_N; i++)
                if (device_settings_has(a, device_keys + i) &&
                                device_key_get(device_keys + i, &a->values) !=
                                                device_key_get(device_keys + i, &b->values))
                        return false;
        return (!a->has_preemption || a->preemption == b->preemption) &&
                        (!a->has_accounting || a->accounting == b->accounting);
}

void device_settings_forget(DeviceSettings *s, unsigned keys) {
        s->mask &= ~keys;
        if (keys & DEVICE_FORGET_POLICY)
                s->ops = NULL;
        if (keys & DEVICE_FORGET_PREEMPTION)
                s->has_preemption = false;
        if (keys & DEVICE_FORGET_ACCOUNTING)
                s->has_accounting = false;
}
