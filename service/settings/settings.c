/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Settings
 */

#include <inttypes.h>
#include <stdio.h>

#include "common/parse-util.h"
#include "settings.h"

#define SETTING_NAME(arg, KEY, Name, ...) [SETTINGS_##KEY] = #Name,
static const char *const settings_key_table[_SETTINGS_KEY_MAX] = {SETTING_ROWS(SETTING_NAME, )};
DEFINE_STRING_TABLE_LOOKUP(settings_key, SettingsKey);

static const char *const settings_source_table[_SETTINGS_SOURCE_MAX] = {
                [SETTINGS_FROM_DEFAULT] = "default",
                [SETTINGS_FROM_SLICE] = "slice",
                [SETTINGS_FROM_UNIT] = "unit",
                [SETTINGS_FROM_UNIT_FILE] = "unit-file",
                [SETTINGS_FROM_ATTRIBUTE] = "attribute",
                [SETTINGS_FROM_CLASS] = "class",
                [SETTINGS_FROM_JOB] = "job",
                [SETTINGS_FROM_CLAIM] = "hold",
                [SETTINGS_FROM_OVERRIDE] = "override",
                [SETTINGS_FROM_USER_UNIT] = "user-unit",
                [SETTINGS_FROM_WISH] = "wish",
                [SETTINGS_FROM_OWNER] = "owner",
};
DEFINE_STRING_TABLE_TO_STRING(settings_source, SettingsSource);

typedef enum RowType {
        TYPE_INT,
        TYPE_UINT,
        TYPE_PERCENT,
        TYPE_LIMIT,
        TYPE_USEC,
        TYPE_BOOL,
        TYPE_PREEMPTION,
        TYPE_ACCOUNTING,
        TYPE_CLASS,
} RowType;

typedef enum RowLowers {
        LOWERS_SMALLER,
        LOWERS_SMALLER_LIMIT,
        LOWERS_LATER,
        LOWERS_FURTHER,
        LOWERS_EXACTER,
        LOWERS_NO,
        LOWERS_UNUSED,
        LOWERS_NEVER,
} RowLowers;

/* Columns of common/setting-rows.h. */
enum {
        INHERITS_FROM_ABOVE = true,
        INHERITS_OWN = false,
        WHOSE_ANYBODY = false,
        WHOSE_GROUPS = true,
        HOME_POLICY = true,
        HOME_SERVICE = false,
};

typedef struct Row {
        RowType type;
        RowLowers lowers;
        bool is_inherited, is_of_groups, is_of_policy;
        int64_t min, max;
        size_t size, offset, resolved; /* in Settings, in SettingsResolved */
        const char *signature, *range;
} Row;

#define MEMBER_POLICY(field)  policy.field
#define MEMBER_SERVICE(field) field
#define SETTING_ROW(arg, KEY, Name, name, field_, TYPE, min_, max_, usual, LOWERS, INHERITS, WHOSE, HOME, range_)      \
        [SETTINGS_##KEY] = {                                                                                           \
                        .type = TYPE_##TYPE,                                                                           \
                        .lowers = LOWERS_##LOWERS,                                                                     \
                        .is_inherited = INHERITS_##INHERITS,                                                           \
                        .is_of_groups = WHOSE_##WHOSE,                                                                 \
                        .is_of_policy = HOME_##HOME,                                                                   \
                        .min = (min_),                                                                                 \
                        .max = (max_),                                                                                 \
                        .size = sizeof(SETTING_TYPE_##TYPE),                                                           \
                        .offset = offsetof(Settings, field_),                                                          \
                        .resolved = offsetof(SettingsResolved, MEMBER_##HOME(field_)),                                 \
                        .signature = SETTING_SIGNATURE_##TYPE,                                                         \
                        .range = (range_),                                                                             \
        },
static const Row rows[_SETTINGS_KEY_MAX] = {SETTING_ROWS(SETTING_ROW, )};

#define SETTING_USUAL(arg, KEY, Name, name, field, TYPE, min, max, usual, LOWERS, INHERITS, WHOSE, HOME, range)        \
        .MEMBER_##HOME(field) = usual,
const SettingsResolved settings_usual = {SETTING_ROWS(SETTING_USUAL, )};

#define BIT(k) (1U << (k))

/* Settings that a cgroup does not inherit. */
#define SETTING_OWN(arg, KEY, Name, name, field, TYPE, min, max, usual, LOWERS, INHERITS, ...)                         \
        | (INHERITS_##INHERITS ? 0 : BIT(SETTINGS_##KEY))
#define OWN_KEYS (0 SETTING_ROWS(SETTING_OWN, ))

#define FOREACH_KEY(k, mask)                                                                                           \
        for (unsigned _left = (mask), k; _left != 0 && (k = (unsigned) __builtin_ctz(_left), true); _left &= _left - 1)

bool settings_key_is_inherited(SettingsKey k) {
        return rows[k].is_inherited;
}

bool settings_key_is_of_groups(SettingsKey k) {
        return rows[k].is_of_groups;
}

const char *settings_key_range(SettingsKey k) {
        return (size_t) k < ELEMENTSOF(rows) ? rows[k].range : NULL;
}

const char *settings_key_signature(SettingsKey k) {
        return rows[k].signature;
}

/* --- one value --- */

static const void *value_in(const Settings *s, SettingsKey k) {
        return (const char *) s + rows[k].offset;
}

static void *value_of(Settings *s, SettingsKey k) {
        return (char *) s + rows[k].offset;
}

static const void *resolved_in(const SettingsResolved *r, SettingsKey k) {
        return (const char *) r + rows[k].resolved;
}

static void *resolved_of(SettingsResolved *r, SettingsKey k) {
        return (char *) r + rows[k].resolved;
}

/* Nearly all have the size of a word. */
static void copy_value(SettingsKey k, void *to, const void *from) {
        if (rows[k].size == sizeof(uint32_t))
                memcpy(to, from, sizeof(uint32_t));
        else
                memcpy(to, from, rows[k].size);
}

static bool is_same_value(SettingsKey k, const void *a, const void *b) {
        if (rows[k].size == sizeof(uint32_t))
                return memcmp(a, b, sizeof(uint32_t)) == 0;
        return memcmp(a, b, rows[k].size) == 0;
}

static int64_t get_number(SettingsKey k, const void *at) {
        uint32_t u;

        if (rows[k].type == TYPE_BOOL)
                return *(const bool *) at;
        if (rows[k].type == TYPE_CLASS)
                return 0;
        memcpy(&u, at, sizeof(u));
        return rows[k].type == TYPE_INT ? (int64_t) (int32_t) u : (int64_t) u;
}

static void put_number(Settings *s, SettingsKey k, int64_t v) {
        uint32_t u = (uint32_t) v;

        if (rows[k].type == TYPE_BOOL)
                *(bool *) value_of(s, k) = v != 0;
        else
                memcpy(value_of(s, k), &u, sizeof(u));
        s->mask |= BIT(k);
}

int64_t settings_get_number(const Settings *s, SettingsKey k) {
        return get_number(k, value_in(s, k));
}

const char *settings_get_name(const Settings *s, SettingsKey k) {
        switch (rows[k].type) {
        case TYPE_PREEMPTION:
                return preemption_to_string((Preemption) settings_get_number(s, k));
        case TYPE_ACCOUNTING:
                return accounting_to_string((Accounting) settings_get_number(s, k));
        default:
                return rows[k].type == TYPE_CLASS ? value_in(s, k) : NULL;
        }
}

const char *settings_format(const Settings *s, SettingsKey k, char *buf, size_t size) {
        int64_t v = settings_get_number(s, k);
        const char *name = settings_get_name(s, k);

        if (name)
                return name;
        if (rows[k].type == TYPE_BOOL)
                return v ? "yes" : "no";
        (void) snprintf(buf, size, "%" PRIi64, v);
        return buf;
}

int settings_set_number(Settings *s, SettingsKey k, int64_t v) {
        if (v < rows[k].min || v > rows[k].max)
                return -ERANGE;
        put_number(s, k, v);
        return 0;
}

/* Writes the whole field, so that equal settings are equal bytes. */
static int put_class(Settings *s, SettingsKey k, const char *name) {
        if (!class_name_is_valid(name))
                return -EINVAL;
        memset(value_of(s, k), 0, CLASS_NAME_MAX);
        memcpy(value_of(s, k), name, strlen(name));
        s->mask |= BIT(k);
        return 0;
}

int settings_set_name(Settings *s, SettingsKey k, const char *name) {
        int v = -EINVAL;

        if (rows[k].type == TYPE_CLASS)
                return put_class(s, k, name);
        if (rows[k].type == TYPE_PREEMPTION)
                v = preemption_from_string(name);
        else if (rows[k].type == TYPE_ACCOUNTING)
                v = accounting_from_string(name);
        if (v < 0)
                return -EINVAL;
        put_number(s, k, v);
        return 0;
}

static int parse_number(RowType type, const char *text, int64_t *ret) {
        uint64_t v = 0;
        int r;

        if (isempty(text))
                return -EINVAL;
        switch (type) {
        case TYPE_BOOL:
                r = parse_bool(text);
                v = r > 0;
                break;
        case TYPE_PERCENT:
                r = parse_percent(text, &v);
                break;
        case TYPE_LIMIT:
                r = parse_limit(text, &v);
                break;
        case TYPE_USEC:
                r = parse_nsec(text, &v);
                v /= NSEC_PER_USEC;
                break;
        default:
                return parse_int64(text, INT64_MIN, INT64_MAX, ret);
        }
        if (r >= 0)
                *ret = (int64_t) v;
        return MIN(r, 0);
}

int settings_set_string(Settings *s, const char *key, const char *value) {
        int k = settings_key_from_string(key);
        int64_t v;

        if (k < 0)
                return -ENOENT;
        if (streq(rows[k].signature, "s"))
                return settings_set_name(s, (SettingsKey) k, value);
        int r = parse_number(rows[k].type, value, &v);
        return r < 0 ? r : settings_set_number(s, (SettingsKey) k, v);
}

/* --- several --- */

int settings_unset(Settings *change, const char *key) {
        int k = settings_key_from_string(key);

        if (k < 0)
                return -ENOENT;
        change->unset |= BIT(k);
        return 0;
}

void settings_merge(Settings *s, const Settings *from) {
        s->mask &= ~from->unset;
        FOREACH_KEY(k, from->mask)
        copy_value(k, value_of(s, k), value_in(from, k));
        s->mask |= from->mask;
}

static bool key_is_equal(const Settings *a, const Settings *b, SettingsKey k) {
        return is_same_value(k, value_in(a, k), value_in(b, k));
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

static bool layer_is_from_above(const SettingsLayer *l) {
        return l->source == SETTINGS_FROM_SLICE || l->is_of_unit;
}

bool settings_layer_decides(const SettingsLayer *l, SettingsKey k) {
        return settings_key_is_inherited(k) || !layer_is_from_above(l);
}

/* Takes those values of `s` that no stronger layer has decided. */
static void take_values(SettingsResolved *r, unsigned *done, const Settings *s, const SettingsLayer *l) {
        unsigned take = s->mask & ~*done & ~BIT(SETTINGS_CLASS);

        if (layer_is_from_above(l))
                take &= ~OWN_KEYS;
        FOREACH_KEY(k, take) {
                copy_value(k, resolved_of(r, k), value_in(s, k));
                r->from[k] = l->source;
        }
        if (take != 0 && *done == 0)
                r->source = l->source;
        *done |= take;
}

/* Decides the keys by the layers, the strongest first. Without a lookup function classes are ignored. */
static void decide(SettingsDecided *d, const SettingsLayer *layers, size_t n_layers, settings_class_lookup_t lookup,
                void *userdata) {
        SettingsResolved *r = &d->resolved;

        *d = (SettingsDecided){.resolved = settings_usual};
        for (size_t i = 0; i < n_layers; i++) {
                const Settings *s = layers[i].settings;
                if (!s || s->mask == 0)
                        continue;

                take_values(r, &d->done, s, layers + i);
                if (!settings_has(s, SETTINGS_CLASS) || (d->done & BIT(SETTINGS_CLASS)))
                        continue;

                const Settings *class = lookup ? lookup(s->class, userdata) : NULL;
                if (!class)
                        continue;
                if (d->done == 0)
                        r->source = layers[i].source;
                d->done |= BIT(SETTINGS_CLASS);
                r->from[SETTINGS_CLASS] = layers[i].source;
                memcpy(r->class, s->class, sizeof(r->class));
                take_values(r, &d->done, class, layers + i);
        }
}

void settings_resolve(const SettingsLayer *layers, size_t n_layers, settings_class_lookup_t lookup, void *userdata,
                SettingsResolved *ret) {
        SettingsDecided d;

        decide(&d, layers, n_layers, lookup, userdata);
        *ret = d.resolved;
}

void settings_base_resolve(const SettingsLayer *layers, size_t n_layers, settings_class_lookup_t lookup, void *userdata,
                SettingsBase *ret) {
        decide(&ret->all, layers, n_layers, lookup, userdata);
        if (ret->all.done & BIT(SETTINGS_CLASS))
                decide(&ret->classless, layers, n_layers, NULL, NULL);
        else
                ret->classless = ret->all;
}

void settings_resolve_onto(const SettingsBase *base, const SettingsLayer *layers, size_t n_layers,
                settings_class_lookup_t lookup, void *userdata, SettingsResolved *ret) {
        SettingsDecided d;

        decide(&d, layers, n_layers, lookup, userdata);
        const SettingsDecided *below = d.done & BIT(SETTINGS_CLASS) ? &base->classless : &base->all;
        FOREACH_KEY(k, below->done & ~d.done) {
                copy_value(k, resolved_of(&d.resolved, k), resolved_in(&below->resolved, k));
                d.resolved.from[k] = below->resolved.from[k];
        }
        if (d.done == 0)
                d.resolved.source = below->resolved.source;
        *ret = d.resolved;
}

/* --- lowering --- */

/* 0 means no limit, or the device's default, so any number is lower. */
static uint64_t limit_rank(int64_t v) {
        return v == 0 ? UINT64_MAX : (uint64_t) v;
}

/* With another period the same quota may allow more at once, so that is no lowering, unless there is no quota yet. */
static bool is_lower_or_equal(SettingsKey k, int64_t a, int64_t b, const PolicySettings *than) {
        switch (rows[k].lowers) {
        case LOWERS_SMALLER:
        case LOWERS_NO:
                return a <= b;
        case LOWERS_SMALLER_LIMIT:
                return limit_rank(a) <= limit_rank(b);
        case LOWERS_LATER:
                return limit_rank(a) >= limit_rank(b);
        case LOWERS_FURTHER:
                return preemption_is_lower_or_equal((Preemption) a, (Preemption) b);
        case LOWERS_EXACTER:
                return accounting_is_lower_or_equal((Accounting) a, (Accounting) b);
        case LOWERS_UNUSED:
                return a == b || (than->max == 0 && than->min == 0);
        default:
                return a == b;
        }
}

static bool lower_values(SettingsResolved *r, const Settings *s, SettingsSource source) {
        unsigned keys = s->mask & ~BIT(SETTINGS_CLASS) & ~(source == SETTINGS_FROM_SLICE ? OWN_KEYS : 0);
        const PolicySettings than = r->policy;
        bool changed = false;

        FOREACH_KEY(k, keys) {
                int64_t a = settings_get_number(s, k), b = get_number(k, resolved_in(r, k));
                if (a == b || !is_lower_or_equal(k, a, b, &than))
                        continue;
                copy_value(k, resolved_of(r, k), value_in(s, k));
                r->policy.threshold_lowers |= k == SETTINGS_THRESHOLD && b == 0;
                r->from[k] = source;
                changed = true;
        }
        return changed;
}

bool settings_lowers(const Settings *s, SettingsKey k, const SettingsResolved *than) {
        if (k == SETTINGS_CLASS || !settings_has(s, k))
                return false;
        int64_t a = settings_get_number(s, k), b = get_number(k, resolved_in(than, k));
        return a != b && is_lower_or_equal(k, a, b, &than->policy);
}

bool settings_key_is_lower(SettingsKey k, const Settings *a, const Settings *b, const SettingsResolved *than) {
        if (k == SETTINGS_CLASS)
                return false;
        int64_t v = settings_get_number(a, k), w = settings_get_number(b, k);
        return v != w && is_lower_or_equal(k, v, w, &than->policy);
}

bool settings_lower_by(SettingsResolved *r, const Settings *wish, SettingsSource source, settings_class_lookup_t lookup,
                void *userdata) {
        bool changed = lower_values(r, wish, source);

        if (settings_has(wish, SETTINGS_CLASS) && lookup) {
                const Settings *class = lookup(wish->class, userdata);
                if (class && lower_values(r, class, source))
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

/* Compares the settings that are in the policy's settings, which are the first member of SettingsResolved; or the other
 * ones. */
static bool all_are_lower_or_equal(const void *a, const void *b, const PolicySettings *than, bool of_policy) {
        for (SettingsKey k = 0; k < _SETTINGS_KEY_MAX; k++)
                if (rows[k].is_of_policy == of_policy &&
                                !is_lower_or_equal(k, get_number(k, (const char *) a + rows[k].resolved),
                                                get_number(k, (const char *) b + rows[k].resolved), than))
                        return false;
        return true;
}
_Static_assert(offsetof(SettingsResolved, policy) == 0, "A PolicySettings is the beginning of a SettingsResolved");

bool settings_policy_is_lower_or_equal(const PolicySettings *a, const PolicySettings *b) {
        return all_are_lower_or_equal(a, b, b, true);
}

bool settings_is_lower_or_equal(const SettingsResolved *a, const SettingsResolved *b) {
        return settings_policy_is_lower_or_equal(&a->policy, &b->policy) &&
                        all_are_lower_or_equal(a, b, &b->policy, false);
}

static bool numbers_ask_for_no_more(const Settings *s, const SettingsResolved *than) {
        const SettingsLayer layer = {.source = SETTINGS_FROM_OWNER};
        SettingsResolved with = *than;
        unsigned done = 0;

        take_values(&with, &done, s, &layer);
        return settings_is_lower_or_equal(&with, than);
}

static const Settings *named_class(const Settings *s, settings_class_lookup_t lookup, void *userdata) {
        static const Settings none = SETTINGS_NULL;

        return (settings_has(s, SETTINGS_CLASS) ? lookup(s->class, userdata) : NULL) ?: &none;
}

bool settings_ask_for_no_more(
                const Settings *s, const SettingsResolved *than, settings_class_lookup_t lookup, void *userdata) {
        return numbers_ask_for_no_more(s, than) && numbers_ask_for_no_more(named_class(s, lookup, userdata), than);
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
        *ret = (Settings){.mask = BIT(_SETTINGS_KEY_MAX) - 1};
        for (SettingsKey k = 0; k < _SETTINGS_KEY_MAX; k++)
                copy_value(k, value_of(ret, k), resolved_in(r, k));
}

bool settings_holds(const SettingsResolved *r, const Settings *s, SettingsKey k) {
        Settings now;

        settings_from_resolved(r, &now);
        return settings_has(s, k) && key_is_equal(s, &now, k);
}

bool settings_policy_equal(const PolicySettings *a, const PolicySettings *b) {
        for (SettingsKey k = 0; k < _SETTINGS_KEY_MAX; k++)
                if (rows[k].is_of_policy &&
                                !is_same_value(k, (const char *) a + rows[k].resolved,
                                                (const char *) b + rows[k].resolved))
                        return false;
        return a->threshold_lowers == b->threshold_lowers;
}

PolicyNodeSettings settings_node(const PolicySettings *s) {
        return (PolicyNodeSettings){
                        .weight = s->weight,
                        .max = s->max,
                        .min = s->min,
                        .period_ns = s->period_us * NSEC_PER_USEC,
                        .utilization = s->utilization,
                        .nice = s->priority,
        };
}
