/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Hints: of the process, from the environment first and from xsched_hint() later; and of single queues
 *
 * Any thread sets them, the control thread sends them.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shim/dbus/dbus-message.h"

typedef enum Hint {
        HINT_PRIORITY,
        HINT_WEIGHT,
        HINT_THRESHOLD,
        HINT_DEADLINE,
        HINT_LAXITY,
        HINT_CRITICAL,
        HINT_UTILIZATION,
        _HINT_MAX,
} Hint;

typedef struct HintSet {
        _Atomic int64_t values[_HINT_MAX];
        _Atomic uint32_t set; /* bit n: hint n */
        _Atomic bool changed; /* since hints_take_changed() */
} HintSet;

const char *hint_to_string(Hint h);

/* Clears all hints. */
void hints_reset(HintSet *s);

/* Returns 0, -EINVAL for an unknown name, or -ERANGE. */
int hints_set(HintSet *s, const char *name, int64_t value);
/* Returns false when the hint is not set. */
bool hints_get(const HintSet *s, Hint h, int64_t *ret);

bool hints_are_set(const HintSet *s);
bool hints_take_changed(HintSet *s);

/* Writes the set hints as entries of a{sv}. */
void hints_write(const HintSet *s, DbusWriter *w);
