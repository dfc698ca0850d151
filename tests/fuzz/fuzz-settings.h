/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Functions that fuzzers of settings share
 */

#include "common/macro.h"
#include "service/settings/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void require(bool ok) {
        if (!ok)
                abort();
}

/* Checks that all values are within the ranges of the manual page. */
static inline void check_settings(const Settings *s) {
        require(!settings_has(s, SETTINGS_PRIORITY) ||
                        (s->priority >= POLICY_PRIORITY_MIN && s->priority <= POLICY_PRIORITY_MAX));
        require(!settings_has(s, SETTINGS_WEIGHT) ||
                        (s->weight >= POLICY_WEIGHT_MIN && s->weight <= POLICY_WEIGHT_MAX));
        require(!settings_has(s, SETTINGS_THRESHOLD) || s->threshold <= SETTINGS_THRESHOLD_MAX);
        require(!settings_has(s, SETTINGS_CLASS) || class_name_is_valid(s->class));
        require((s->mask & ~((1U << _SETTINGS_KEY_MAX) - 1)) == 0);
}
