/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Hints: names, ranges, storage
 */

#include "shim/core/hints.h"
#include "common/macro.h"

#define DELAY_MAX INT64_C(3600000000) /* as POLICY_DELAY_MAX, in microseconds */

static const struct {
        const char *name;
        char type; /* on the bus */
        int64_t min, max;
} hints[_HINT_MAX] = {
                [HINT_PRIORITY] = {"Priority", 'i', -255, 255},
                [HINT_WEIGHT] = {"Weight", 'u', 1, 10000},
                [HINT_THRESHOLD] = {"Threshold", 'u', 0, 65535},
                [HINT_DEADLINE] = {"Deadline", 't', 0, DELAY_MAX},
                [HINT_LAXITY] = {"Laxity", 't', 0, DELAY_MAX},
                [HINT_CRITICAL] = {"Critical", 'i', -255, 255},
                [HINT_UTILIZATION] = {"Utilization", 'u', 1, 100},
};

void hints_reset(HintSet *s) {
        atomic_store_explicit(&s->set, 0, memory_order_relaxed);
        atomic_store_explicit(&s->changed, false, memory_order_relaxed);
}

int hints_set(HintSet *s, const char *name, int64_t value) {
        Hint h = 0;

        while (h < _HINT_MAX && !streq(name, hints[h].name))
                h++;
        if (h == _HINT_MAX)
                return -EINVAL;
        if (value < hints[h].min || value > hints[h].max)
                return -ERANGE;
        atomic_store_explicit(&s->values[h], value, memory_order_relaxed);
        atomic_fetch_or_explicit(&s->set, UINT32_C(1) << h, memory_order_release);
        atomic_store_explicit(&s->changed, true, memory_order_seq_cst);
        return 0;
}

bool hints_get(const HintSet *s, Hint h, int64_t *ret) {
        if (!(atomic_load_explicit(&s->set, memory_order_acquire) & UINT32_C(1) << h))
                return false;
        *ret = atomic_load_explicit(&s->values[h], memory_order_relaxed);
        return true;
}

bool hints_are_set(const HintSet *s) {
        return atomic_load_explicit(&s->set, memory_order_acquire) != 0;
}

bool hints_take_changed(HintSet *s) {
        return atomic_load_explicit(&s->changed, memory_order_relaxed) &&
                        atomic_exchange_explicit(&s->changed, false, memory_order_seq_cst);
}

void hints_write(const HintSet *s, DbusWriter *w) {
        for (Hint h = 0; h < _HINT_MAX; h++) {
                const char signature[] = {hints[h].type, '\0'};
                int64_t value;

                if (!hints_get(s, h, &value))
                        continue;
                dbus_write_struct(w);
                dbus_write_string(w, hints[h].name);
                dbus_write_signature(w, signature);
                if (hints[h].type == 't')
                        dbus_write_u64(w, (uint64_t) value);
                else
                        dbus_write_u32(w, (uint32_t) value);
        }
}
