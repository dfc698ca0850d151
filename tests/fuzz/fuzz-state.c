/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Any bytes as the file of stored settings
 *
 * Accepted values are within the ranges, and are the same after they were written and read again.
 */

#include "service/settings/overrides.h"
#include "tests/fuzz/fuzz-settings.h"

static void check_entries(const Overrides *s) {
        const OverridesEntry *e, *tmp;

        HASH_ITER(hh, s->entries, e, tmp) {
                require(overrides_name_is_valid(e->name) && !settings_is_empty(&e->settings));
                check_settings(&e->settings);
        }
}

static void check_devices(const Overrides *s) {
        const OverridesDevice *d, *tmp;

        require(HASH_COUNT(s->devices) <= OVERRIDES_DEVICES);
        HASH_ITER(hh, s->devices, d, tmp) {
                require(device_id_is_valid(d->id) || streq(d->id, OVERRIDES_EVERY_DEVICE));
                require(!device_settings_is_empty(&d->settings));
                for (const DeviceKey *k = device_keys; k < device_keys + DEVICE_KEYS_N; k++)
                        if (device_settings_has(&d->settings, k)) {
                                uint64_t v = device_key_get(k, &d->settings.values);
                                require(v >= k->min && v <= k->max);
                        }
        }
}

static void check_same(const Overrides *a, const Overrides *b) {
        const OverridesEntry *e, *tmp;

        require(HASH_COUNT(a->entries) == HASH_COUNT(b->entries));
        HASH_ITER(hh, a->entries, e, tmp) {
                const Settings *other = overrides_find(b, e->name);
                require(other && settings_is_equal(other, &e->settings));
        }
        const OverridesDevice *d, *dtmp;
        require(HASH_COUNT(a->devices) == HASH_COUNT(b->devices));
        HASH_ITER(hh, a->devices, d, dtmp) {
                const DeviceSettings *other = overrides_find_device(b, d->id);
                require(other && device_settings_equal(other, &d->settings));
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        Overrides first = OVERRIDES_NULL, second = OVERRIDES_NULL;
        _cleanup_free_ char *text = malloc(size + 1), *printed = NULL;
        char why[OVERRIDES_WHY_MAX], why_second[OVERRIDES_WHY_MAX];
        size_t n = 0;

        require(text);
        memcpy(text, data, size);
        text[size] = '\0';
        int r = overrides_parse(&first, text, size, why);
        require(r == 0 || r == 1 || r == -EBADMSG);
        require((r == 0) == isempty(why));
        check_entries(&first);
        check_devices(&first);
        require(overrides_print(&first, &printed, &n) == 0);
        require(overrides_parse(&second, printed, n, why_second) == 0);
        check_same(&first, &second);
        overrides_done(&first);
        overrides_done(&second);
        return 0;
}
