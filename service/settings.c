/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Settings
 */

#include <limits.h>

#include "common/parse-util.h"
#include "settings.h"

static const char *const settings_key_table[_SETTINGS_KEY_MAX] = {
                [SETTINGS_PRIORITY] = "Priority",
                [SETTINGS_WEIGHT] = "Weight",
                [SETTINGS_THRESHOLD] = "Threshold",
                [SETTINGS_PREEMPTION] = "Preemption",
                [SETTINGS_GANG] = "Gang",
                [SETTINGS_MAX] = "Max",
                [SETTINGS_MIN] = "Min",
                [SETTINGS_PERIOD] = "Period",
                [SETTINGS_ACCOUNTING] = "Accounting",
                [SETTINGS_CLASS] = "Class",
};
DEFINE_STRING_TABLE_LOOKUP(settings_key, SettingsKey);

static const char *const settings_source_table[_SETTINGS_SOURCE_MAX] = {
                [SETTINGS_FROM_DEFAULT] = "default",
                [SETTINGS_FROM_SLICE] = "slice",
                [SETTINGS_FROM_UNIT] = "unit",
                [SETTINGS_FROM_UNIT_FILE] = "unit-file",
                [SETTINGS_FROM_ATTRIBUTE] = "attribute",
                [SETTINGS_FROM_CLASS] = "class",
                [SETTINGS_FROM_JOB] = "job",
                [SETTINGS_FROM_HOLD] = "hold",
                [SETTINGS_FROM_OVERRIDE] = "override",
                [SETTINGS_FROM_USER_UNIT] = "user-unit",
                [SETTINGS_FROM_WISH] = "wish",
                [SETTINGS_FROM_OWNER] = "owner",
};
DEFINE_STRING_TABLE_LOOKUP(settings_source, SettingsSource);

#define BIT(k) (1U << (k))

/* What is the node's own. */
#define SETTINGS_NODE (BIT(SETTINGS_WEIGHT) | BIT(SETTINGS_MAX) | BIT(SETTINGS_MIN) | BIT(SETTINGS_PERIOD))

bool settings_key_is_inherited(SettingsKey k) {
        return !(BIT(k) & SETTINGS_NODE);
}

bool settings_key_is_of_groups(SettingsKey k) {
        return k == SETTINGS_MAX || k == SETTINGS_MIN || k == SETTINGS_PERIOD || k == SETTINGS_ACCOUNTING;
}

const char *settings_key_range(SettingsKey k) {
        static const char *const table[_SETTINGS_KEY_MAX] = {
                        [SETTINGS_PRIORITY] = "an integer, -255..255",
                        [SETTINGS_WEIGHT] = "an integer, 1..10000",
                        [SETTINGS_THRESHOLD] = "an integer, 0..65535",
                        [SETTINGS_PREEMPTION] = "auto, off, 1, 2, 3 or privileged",
                        [SETTINGS_GANG] = "a boolean, yes or no",
                        [SETTINGS_MAX] = "a percentage, 1..10000, or 0 (infinity) for no limit",
                        [SETTINGS_MIN] = "a percentage, 0..100",
                        [SETTINGS_PERIOD] = "a time span, 1ms..10s",
                        [SETTINGS_ACCOUNTING] = "auto, exact, sampled or off",
                        [SETTINGS_CLASS] = "the name of a class, letters, digits, '.', '_' and '-'",
        };
        return (size_t) k < ELEMENTSOF(table) ? table[k] : NULL;
}

bool settings_class_name_is_valid(const char *name) {
        static const char ok[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

        if (isempty(name) || name[0] == '.')
                return false;
        size_t n = strlen(name);
        return n < SETTINGS_CLASS_MAX && strspn(name, ok) == n;
}

int settings_set_priority(Settings *s, int64_t v) {
        if (v < POLICY_PRIORITY_MIN || v > POLICY_PRIORITY_MAX)
                return -ERANGE;
        s->priority = (int) v;
        s->mask |= BIT(SETTINGS_PRIORITY);
        return 0;
}

int settings_set_weight(Settings *s, int64_t v) {
        if (v < (int64_t) POLICY_WEIGHT_MIN || v > (int64_t) POLICY_WEIGHT_MAX)
                return -ERANGE;
        s->weight = (uint32_t) v;
        s->mask |= BIT(SETTINGS_WEIGHT);
        return 0;
}

int settings_set_threshold(Settings *s, int64_t v) {
        if (v < 0 || v > (int64_t) SETTINGS_THRESHOLD_MAX)
                return -ERANGE;
        s->threshold = (uint32_t) v;
        s->mask |= BIT(SETTINGS_THRESHOLD);
        return 0;
}

int settings_set_preemption(Settings *s, const char *name) {
        int v = preemption_from_string(name);
        if (v < 0)
                return -EINVAL;
        s->preemption = (Preemption) v;
        s->mask |= BIT(SETTINGS_PREEMPTION);
        return 0;
}

int settings_set_gang(Settings *s, bool v) {
        s->gang = v;
        s->mask |= BIT(SETTINGS_GANG);
        return 0;
}

static int set_percent(Settings *s, SettingsKey k, int64_t v, int64_t most, uint32_t *to) {
        if (v < 0 || v > most)
                return -ERANGE;
        *to = (uint32_t) v;
        s->mask |= BIT(k);
        return 0;
}

int settings_set_max(Settings *s, int64_t v) {
        return set_percent(s, SETTINGS_MAX, v, (int64_t) POLICY_MAX_MAX, &s->max);
}

int settings_set_min(Settings *s, int64_t v) {
        return set_percent(s, SETTINGS_MIN, v, (int64_t) POLICY_MIN_MAX, &s->min);
}

int settings_set_period(Settings *s, int64_t us) {
        if (us < (int64_t) (POLICY_PERIOD_MIN / NSEC_PER_USEC) ||
                        us > (int64_t) (POLICY_PERIOD_MAX / NSEC_PER_USEC))
                return -ERANGE;
        s->period_us = (uint32_t) us;
        s->mask |= BIT(SETTINGS_PERIOD);
        return 0;
}

int settings_set_accounting(Settings *s, const char *name) {
        int v = accounting_from_string(name);
        if (v < 0)
                return -EINVAL;
        s->accounting = (Accounting) v;
        s->mask |= BIT(SETTINGS_ACCOUNTING);
        return 0;
}

int settings_set_class(Settings *s, const char *name) {
        if (!settings_class_name_is_valid(name))
                return -EINVAL;
        /* The whole field, so that equal settings are equal bytes. */
        memset(s->class, 0, sizeof(s->class));
        memcpy(s->class, name, strlen(name));
        s->mask |= BIT(SETTINGS_CLASS);
        return 0;
}

static int parse_number(const char *text, int64_t *ret) {
        char *end = NULL;

        if (isempty(text) || strspn(text, "+-0123456789") != strlen(text))
                return -EINVAL;
        errno = 0;
        long long v = strtoll(text, &end, 10);
        if (errno != 0)
                return -ERANGE;
        if (end == text || *end != '\0')
                return -EINVAL;
        *ret = v;
        return 0;
}

static int set_share_string(Settings *s, SettingsKey k, const char *value) {
        uint64_t v;

        int r = k == SETTINGS_PERIOD ? parse_nsec(value, &v) : parse_percent(value, &v);
        if (r < 0)
                return r;
        if (k == SETTINGS_PERIOD)
                return settings_set_period(s, (int64_t) (v / NSEC_PER_USEC));
        return k == SETTINGS_MAX ? settings_set_max(s, (int64_t) v) : settings_set_min(s, (int64_t) v);
}

int settings_set_string(Settings *s, const char *key, const char *value) {
        int k = settings_key_from_string(key);
        if (k < 0)
                return -ENOENT;
        if (k == SETTINGS_CLASS)
                return settings_set_class(s, value);
        if (k == SETTINGS_PREEMPTION)
                return settings_set_preemption(s, value);
        if (k == SETTINGS_ACCOUNTING)
                return settings_set_accounting(s, value);
        if (k == SETTINGS_MAX || k == SETTINGS_MIN || k == SETTINGS_PERIOD)
                return set_share_string(s, (SettingsKey) k, value);
        int r = k == SETTINGS_GANG ? parse_bool(value) : 0;
        if (k == SETTINGS_GANG)
                return r < 0 ? r : settings_set_gang(s, r > 0);

        int64_t v;
        r = parse_number(value, &v);
        if (r < 0)
                return r;
        switch ((SettingsKey) k) {
        case SETTINGS_PRIORITY:
                return settings_set_priority(s, v);
        case SETTINGS_WEIGHT:
                return settings_set_weight(s, v);
        case SETTINGS_THRESHOLD:
                return settings_set_threshold(s, v);
        default:
                return -ENOENT;
        }
}

int settings_unset(Settings *change, const char *key) {
        int k = settings_key_from_string(key);

        if (k < 0)
                return -ENOENT;
        change->unset |= BIT(k);
        return 0;
}

void settings_merge(Settings *s, const Settings *from) {
        s->mask &= ~from->unset;
        if (settings_has(from, SETTINGS_PRIORITY))
                s->priority = from->priority;
        if (settings_has(from, SETTINGS_WEIGHT))
                s->weight = from->weight;
        if (settings_has(from, SETTINGS_THRESHOLD))
                s->threshold = from->threshold;
        if (settings_has(from, SETTINGS_PREEMPTION))
                s->preemption = from->preemption;
        if (settings_has(from, SETTINGS_GANG))
                s->gang = from->gang;
        if (settings_has(from, SETTINGS_MAX))
                s->max = from->max;
        if (settings_has(from, SETTINGS_MIN))
                s->min = from->min;
        if (settings_has(from, SETTINGS_PERIOD))
                s->period_us = from->period_us;
        if (settings_has(from, SETTINGS_ACCOUNTING))
                s->accounting = from->accounting;
        if (settings_has(from, SETTINGS_CLASS))
                memcpy(s->class, from->class, sizeof(s->class));
        s->mask |= from->mask;
}

static bool key_is_equal(const Settings *a, const Settings *b, SettingsKey k) {
        switch (k) {
        case SETTINGS_PRIORITY:
                return a->priority == b->priority;
        case SETTINGS_WEIGHT:
                return a->weight == b->weight;
        case SETTINGS_THRESHOLD:
                return a->threshold == b->threshold;
        case SETTINGS_PREEMPTION:
                return a->preemption == b->preemption;
        case SETTINGS_GANG:
                return a->gang == b->gang;
        case SETTINGS_MAX:
                return a->max == b->max;
        case SETTINGS_MIN:
                return a->min == b->min;
        case SETTINGS_PERIOD:
                return a->period_us == b->period_us;
        case SETTINGS_ACCOUNTING:
                return a->accounting == b->accounting;
        case SETTINGS_CLASS:
                return streq(a->class, b->class);
        default:
                return false;
        }
}

bool settings_is_equal(const Settings *a, const Settings *b) {
        if (a->mask != b->mask)
                return false;
        for (SettingsKey k = 0; k < _SETTINGS_KEY_MAX; k++)
                if (settings_has(a, k) && !key_is_equal(a, b, k))
                        return false;
        return true;
}

bool settings_forget_equal(Settings *s, const Settings *than) {
        unsigned before = s->mask;

        for (SettingsKey k = 0; k < _SETTINGS_KEY_MAX; k++)
                if (settings_has(s, k) && settings_has(than, k) && key_is_equal(s, than, k))
                        s->mask &= ~BIT(k);
        return s->mask != before;
}

static void take_share(SettingsResolved *r, unsigned take, const Settings *s, SettingsSource source) {
        if (take & BIT(SETTINGS_WEIGHT)) {
                r->policy.weight = s->weight;
                r->from[SETTINGS_WEIGHT] = source;
        }
        if (take & BIT(SETTINGS_MAX)) {
                r->policy.max = s->max;
                r->from[SETTINGS_MAX] = source;
        }
        if (take & BIT(SETTINGS_MIN)) {
                r->policy.min = s->min;
                r->from[SETTINGS_MIN] = source;
        }
        if (take & BIT(SETTINGS_PERIOD)) {
                r->policy.period_us = s->period_us;
                r->from[SETTINGS_PERIOD] = source;
        }
}

static bool layer_is_from_above(const SettingsLayer *l) {
        return l->source == SETTINGS_FROM_SLICE || l->is_of_unit;
}

bool settings_layer_decides(const SettingsLayer *l, SettingsKey k) {
        return settings_key_is_inherited(k) || !layer_is_from_above(l);
}

/* Takes from s those values that nobody stronger decided. */
static void resolve_numbers(SettingsResolved *r, unsigned *done, const Settings *s, const SettingsLayer *l) {
        unsigned take = s->mask & ~*done & ~BIT(SETTINGS_CLASS);
        SettingsSource source = l->source;

        if (layer_is_from_above(l))
                take &= ~SETTINGS_NODE;
        take_share(r, take, s, source);
        if (take & BIT(SETTINGS_PRIORITY)) {
                r->policy.priority = s->priority;
                r->from[SETTINGS_PRIORITY] = source;
        }
        if (take & BIT(SETTINGS_THRESHOLD)) {
                r->policy.threshold = s->threshold;
                r->from[SETTINGS_THRESHOLD] = source;
        }
        if (take & BIT(SETTINGS_PREEMPTION)) {
                r->policy.preemption = s->preemption;
                r->from[SETTINGS_PREEMPTION] = source;
        }
        if (take & BIT(SETTINGS_GANG)) {
                r->policy.gang = s->gang;
                r->from[SETTINGS_GANG] = source;
        }
        if (take & BIT(SETTINGS_ACCOUNTING)) {
                r->accounting = s->accounting;
                r->from[SETTINGS_ACCOUNTING] = source;
        }
        if (take != 0 && *done == 0)
                r->source = source;
        *done |= take;
}

void settings_resolve(const SettingsLayer *layers, size_t n_layers, settings_class_lookup_t lookup,
                void *userdata, SettingsResolved *ret) {
        SettingsResolved r = {.policy = POLICY_SETTINGS_DEFAULT, .source = SETTINGS_FROM_DEFAULT};
        unsigned done = 0;

        for (size_t i = 0; i < n_layers; i++) {
                const Settings *s = layers[i].settings;
                if (!s || s->mask == 0)
                        continue;

                resolve_numbers(&r, &done, s, layers + i);
                if (!settings_has(s, SETTINGS_CLASS) || (done & BIT(SETTINGS_CLASS)))
                        continue;

                const Settings *class = lookup ? lookup(s->class, userdata) : NULL;
                if (!class)
                        continue;
                if (done == 0)
                        r.source = layers[i].source;
                done |= BIT(SETTINGS_CLASS);
                r.from[SETTINGS_CLASS] = layers[i].source;
                memcpy(r.class, s->class, sizeof(r.class));
                resolve_numbers(&r, &done, class, layers + i);
        }
        *ret = r;
}

/* 0 is "the device's default", which a number can only undercut by being one. */
static uint64_t threshold_rank(uint32_t t) {
        return t == 0 ? UINT64_MAX : t;
}

/* 0 is no limit. */
static uint64_t max_rank(uint32_t max) {
        return max == 0 ? UINT64_MAX : max;
}

static bool lower_share(SettingsResolved *r, const Settings *s, SettingsSource source) {
        bool changed = false;

        if (settings_has(s, SETTINGS_PERIOD) && r->policy.max == 0 && r->policy.min == 0 &&
                        s->period_us != r->policy.period_us) {
                r->policy.period_us = s->period_us;
                r->from[SETTINGS_PERIOD] = source;
                changed = true;
        }
        if (settings_has(s, SETTINGS_WEIGHT) && s->weight < r->policy.weight) {
                r->policy.weight = s->weight;
                r->from[SETTINGS_WEIGHT] = source;
                changed = true;
        }
        if (settings_has(s, SETTINGS_MAX) && max_rank(s->max) < max_rank(r->policy.max)) {
                r->policy.max = s->max;
                r->from[SETTINGS_MAX] = source;
                changed = true;
        }
        if (settings_has(s, SETTINGS_MIN) && s->min < r->policy.min) {
                r->policy.min = s->min;
                r->from[SETTINGS_MIN] = source;
                changed = true;
        }
        return changed;
}

static bool lower_numbers(SettingsResolved *r, const Settings *s, SettingsSource source) {
        bool changed = source != SETTINGS_FROM_SLICE && lower_share(r, s, source);

        if (settings_has(s, SETTINGS_PRIORITY) && s->priority < r->policy.priority) {
                r->policy.priority = s->priority;
                r->from[SETTINGS_PRIORITY] = source;
                changed = true;
        }
        if (settings_has(s, SETTINGS_THRESHOLD) &&
                        threshold_rank(s->threshold) < threshold_rank(r->policy.threshold)) {
                r->policy.threshold_lowers |= r->policy.threshold == 0;
                r->policy.threshold = s->threshold;
                r->from[SETTINGS_THRESHOLD] = source;
                changed = true;
        }
        if (settings_has(s, SETTINGS_PREEMPTION) &&
                        !preemption_is_lower_or_equal(r->policy.preemption, s->preemption)) {
                r->policy.preemption = s->preemption;
                r->from[SETTINGS_PREEMPTION] = source;
                changed = true;
        }
        if (settings_has(s, SETTINGS_ACCOUNTING) &&
                        !accounting_is_lower_or_equal(r->accounting, s->accounting) &&
                        accounting_is_lower_or_equal(s->accounting, r->accounting)) {
                r->accounting = s->accounting;
                r->from[SETTINGS_ACCOUNTING] = source;
                changed = true;
        }
        if (settings_has(s, SETTINGS_GANG) && s->gang && !r->policy.gang) {
                r->policy.gang = true;
                r->from[SETTINGS_GANG] = source;
                changed = true;
        }
        return changed;
}

bool settings_lower_by(SettingsResolved *r, const Settings *wish, SettingsSource source,
                settings_class_lookup_t lookup, void *userdata) {
        bool changed = lower_numbers(r, wish, source);

        if (settings_has(wish, SETTINGS_CLASS) && lookup) {
                const Settings *class = lookup(wish->class, userdata);
                if (class && lower_numbers(r, class, source))
                        changed = true;
        }
        if (changed)
                r->source = source;
        return changed;
}

bool settings_lower_by_layers(SettingsResolved *r, const SettingsLayer *layers, size_t n,
                settings_class_lookup_t lookup, void *userdata) {
        bool changed = false;

        for (size_t i = 0; i < n; i++)
                if (settings_lower_by(r, layers[i].settings, layers[i].source, lookup, userdata))
                        changed = true;
        return changed;
}

bool settings_lower(
                SettingsResolved *r, const Settings *wish, settings_class_lookup_t lookup, void *userdata) {
        return settings_lower_by(r, wish, SETTINGS_FROM_WISH, lookup, userdata);
}

/* Another period may mean more at once: that is no lowering, unless there is no quota yet. */
static bool share_is_lower_or_equal(const PolicySettings *a, const PolicySettings *b) {
        return a->weight <= b->weight && max_rank(a->max) <= max_rank(b->max) && a->min <= b->min &&
                        (a->period_us == b->period_us || (b->max == 0 && b->min == 0));
}

bool settings_policy_is_lower_or_equal(const PolicySettings *a, const PolicySettings *b) {
        return a->priority <= b->priority && share_is_lower_or_equal(a, b) &&
                        threshold_rank(a->threshold) <= threshold_rank(b->threshold) &&
                        preemption_is_lower_or_equal(a->preemption, b->preemption) && a->gang >= b->gang;
}

bool settings_is_lower_or_equal(const SettingsResolved *a, const SettingsResolved *b) {
        return settings_policy_is_lower_or_equal(&a->policy, &b->policy) &&
                        accounting_is_lower_or_equal(a->accounting, b->accounting);
}

static bool numbers_ask_for_no_more(const Settings *s, const SettingsResolved *than) {
        const SettingsLayer layer = {.source = SETTINGS_FROM_OWNER};
        SettingsResolved with = *than;
        unsigned done = 0;

        resolve_numbers(&with, &done, s, &layer);
        return settings_is_lower_or_equal(&with, than);
}

static const Settings *named_class(const Settings *s, settings_class_lookup_t lookup, void *userdata) {
        static const Settings none = SETTINGS_NULL;

        return (settings_has(s, SETTINGS_CLASS) ? lookup(s->class, userdata) : NULL) ?: &none;
}

bool settings_ask_for_no_more(const Settings *s, const SettingsResolved *than,
                settings_class_lookup_t lookup, void *userdata) {
        return numbers_ask_for_no_more(s, than) &&
                        numbers_ask_for_no_more(named_class(s, lookup, userdata), than);
}

void settings_give_way(Settings *s, const Settings *by, settings_class_lookup_t lookup, void *userdata) {
        unsigned decided = by->mask | named_class(by, lookup, userdata)->mask;
        Settings class = *named_class(s, lookup, userdata);

        if (class.mask & decided) {
                class.mask &= ~(s->mask | BIT(SETTINGS_CLASS));
                settings_merge(s, &class);
                decided |= BIT(SETTINGS_CLASS);
        }
        s->mask &= ~decided;
}

void settings_from_resolved(const SettingsResolved *r, Settings *ret) {
        *ret = (Settings){
                        .mask = (1U << _SETTINGS_KEY_MAX) - 1,
                        .priority = r->policy.priority,
                        .weight = r->policy.weight,
                        .threshold = r->policy.threshold,
                        .preemption = r->policy.preemption,
                        .gang = r->policy.gang,
                        .max = r->policy.max,
                        .min = r->policy.min,
                        .period_us = r->policy.period_us,
                        .accounting = r->accounting,
        };
        memcpy(ret->class, r->class, sizeof(ret->class));
}

bool settings_holds(const SettingsResolved *r, const Settings *s, SettingsKey k) {
        Settings now;

        settings_from_resolved(r, &now);
        return settings_has(s, k) && key_is_equal(s, &now, k);
}

bool settings_policy_equal(const PolicySettings *a, const PolicySettings *b) {
        return a->priority == b->priority && a->weight == b->weight && a->threshold == b->threshold &&
                        a->threshold_lowers == b->threshold_lowers && a->preemption == b->preemption &&
                        a->gang == b->gang && a->max == b->max && a->min == b->min &&
                        a->period_us == b->period_us;
}

PolicyNodeSettings settings_node(const PolicySettings *s) {
        return (PolicyNodeSettings){
                        .weight = s->weight,
                        .max = s->max,
                        .min = s->min,
                        .period_ns = s->period_us * NSEC_PER_USEC,
        };
}
