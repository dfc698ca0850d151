/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Settings: the keys that a person, a job, a class or a process sets, and the values that result from all of them
 *
 * A Settings names some of the keys and leaves the others alone: `mask` says which. Settings come in layers, the first
 * layer that names a key wins it (settings_resolve()). A class that is named by a layer is right below that layer's
 * own keys, and above the layers that follow. A wish is a layer that can only lower: it is applied last, by taking the
 * smaller value.
 *
 * A group inherits settings from the cgroups above, except Weight, Max, Min and Period: these belong to their own
 * cgroup, which has them among its siblings.
 *
 * Pure: knows neither bus nor configuration. Classes are looked up through a callback.
 */

#include <stddef.h>

#include "accounting.h"
#include "common/class-name.h"
#include "common/macro.h"
#include "common/setting-rows.h"
#include "policy/policy.h"

#define SETTINGS_THRESHOLD_MAX 65535U

typedef char SettingsClassName[CLASS_NAME_MAX];

/* The types of common/setting-rows.h. */
#define SETTING_TYPE_INT        int
#define SETTING_TYPE_UINT       uint32_t
#define SETTING_TYPE_PERCENT    uint32_t
#define SETTING_TYPE_LIMIT      uint32_t
#define SETTING_TYPE_USEC       uint32_t
#define SETTING_TYPE_BOOL       bool
#define SETTING_TYPE_PREEMPTION Preemption
#define SETTING_TYPE_ACCOUNTING Accounting
#define SETTING_TYPE_CLASS      SettingsClassName

#define SETTING_KEY(arg, KEY, ...) SETTINGS_##KEY,
typedef enum SettingsKey {
        SETTING_ROWS(SETTING_KEY, ) /* SETTINGS_PRIORITY, ... */
        _SETTINGS_KEY_MAX,
} SettingsKey;

/* The names on the bus and in files: "Priority", ... */
const char *settings_key_to_string(SettingsKey v);
int settings_key_from_string(const char *s);

#define SETTING_FIELD(arg, KEY, Name, name, field, TYPE, ...) SETTING_TYPE_##TYPE field;
typedef struct Settings {
        unsigned mask;                /* 1 << SettingsKey */
        unsigned unset;               /* in a change: the keys that it removes; else 0 */
        SETTING_ROWS(SETTING_FIELD, ) /* int priority; ... */
} Settings;

#define SETTINGS_NULL ((Settings){0})

static inline bool settings_has(const Settings *s, SettingsKey k) {
        return s->mask & (1U << k);
}

static inline bool settings_is_empty(const Settings *s) {
        return s->mask == 0;
}

/* The type on the bus: "i", "u", "t", "b" or "s". */
const char *settings_key_signature(SettingsKey k);

/* The value of a key of type "s", or else the value as a number. */
const char *settings_get_name(const Settings *s, SettingsKey k);
int64_t settings_get_number(const Settings *s, SettingsKey k);

/* Formats the value for the log; numbers in the unit of the bus. Returns buf, or the name itself. */
const char *settings_format(const Settings *s, SettingsKey k, char *buf, size_t size);

/* Each returns 0, or -ERANGE when the value is out of range (-EINVAL for a name that cannot be one); *s is then
 * unchanged. */
int settings_set_number(Settings *s, SettingsKey k, int64_t v);
int settings_set_name(Settings *s, SettingsKey k, const char *name);

/* settings_set_priority(&s, 5), settings_set_class(&s, "batch"), ... */
#define SETTING_TAKES_INT        NUMBER
#define SETTING_TAKES_UINT       NUMBER
#define SETTING_TAKES_PERCENT    NUMBER
#define SETTING_TAKES_LIMIT      NUMBER
#define SETTING_TAKES_USEC       NUMBER
#define SETTING_TAKES_BOOL       NUMBER
#define SETTING_TAKES_PREEMPTION NAME
#define SETTING_TAKES_ACCOUNTING NAME
#define SETTING_TAKES_CLASS      NAME
#define SETTING_SETTER_NUMBER(KEY, name)                                                                               \
        static inline int settings_set_##name(Settings *s, int64_t v) {                                                \
                return settings_set_number(s, SETTINGS_##KEY, v);                                                      \
        }
#define SETTING_SETTER_NAME(KEY, name)                                                                                 \
        static inline int settings_set_##name(Settings *s, const char *v) {                                            \
                return settings_set_name(s, SETTINGS_##KEY, v);                                                        \
        }
#define SETTING_SETTER_OF(takes, KEY, name)                    XS_CONCAT(SETTING_SETTER_, takes)(KEY, name)
#define SETTING_SETTER(arg, KEY, Name, name, field, TYPE, ...) SETTING_SETTER_OF(SETTING_TAKES_##TYPE, KEY, name)
SETTING_ROWS(SETTING_SETTER, )

/* Sets the key from text, as in a configuration file or an environment variable. -ENOENT: no such key; -EINVAL: not a
 * number; -ERANGE as above. */
int settings_set_string(Settings *s, const char *key, const char *value);

/* Whether a group without the setting inherits it from the cgroups above. */
bool settings_key_is_inherited(SettingsKey k);

/* Whether only groups have the setting: Max, Min, Period, Accounting. */
bool settings_key_is_of_groups(SettingsKey k);

/* Returns the text for a message that refuses a value: "Weight must be " and then this, "1..10000". Never NULL for a
 * known key. */
const char *settings_key_range(SettingsKey k);

/* Has the change remove the key of that name. -ENOENT when there is no such key. */
int settings_unset(Settings *change, const char *key);

/* Applies a change to *s: removes the keys that `from` unsets, and sets those that it sets. Other keys stay. */
void settings_merge(Settings *s, const Settings *from);

/* Whether both set the same keys to the same values. */
bool settings_is_equal(const Settings *a, const Settings *b);

/* Forgets those keys of *s that `than` names with the same value. Returns whether there were any. */
bool settings_forget_equal(Settings *s, const Settings *than);

typedef enum SettingsSource {
        SETTINGS_FROM_DEFAULT,
        SETTINGS_FROM_SLICE,     /* inherited from a cgroup above */
        SETTINGS_FROM_UNIT,      /* properties of the unit, as systemd tells them */
        SETTINGS_FROM_USER_UNIT, /* a unit of a user's manager, as its processes tell: only lowers */
        SETTINGS_FROM_UNIT_FILE, /* [X-XSched] of the unit's files */
        SETTINGS_FROM_ATTRIBUTE, /* user.xsched.* of the cgroup's directory */
        SETTINGS_FROM_CLASS,     /* a class that was named by a match or is the configured default */
        SETTINGS_FROM_JOB,       /* CreateJob */
        SETTINGS_FROM_CLAIM,     /* HoldPriority */
        SETTINGS_FROM_OVERRIDE,  /* set over the bus */
        SETTINGS_FROM_WISH,      /* lowered by the process itself */
        SETTINGS_FROM_OWNER,     /* lowered over the bus by the owner */
        _SETTINGS_SOURCE_MAX,
} SettingsSource;

const char *settings_source_to_string(SettingsSource v);

/* One layer, strongest first in the array that settings_resolve() takes. */
typedef struct SettingsLayer {
        SettingsSource source;
        const char *detail; /* for Explain: whose settings these are; may be NULL */
        const Settings *settings;
        bool is_of_unit; /* of a cgroup below a unit: Weight, Max, Min and Period count for the unit, once */
} SettingsLayer;

/* Whether the layer can decide the key: a layer of a cgroup above cannot decide a key that is not inherited. */
bool settings_layer_decides(const SettingsLayer *l, SettingsKey k);

#define SETTING_RESOLVED_POLICY(type, field)
#define SETTING_RESOLVED_SERVICE(type, field) type field;
#define SETTING_RESOLVED(arg, KEY, Name, name, field, TYPE, min, max, usual, LOWERS, INHERITS, WHOSE, HOME, range)     \
        SETTING_RESOLVED_##HOME(SETTING_TYPE_##TYPE, field)
typedef struct SettingsResolved {
        PolicySettings policy;
        SETTING_ROWS(SETTING_RESOLVED, )        /* those that policies do not know: Accounting accounting; ... */
        SettingsSource source;                  /* the strongest source that decided any key */
        SettingsSource from[_SETTINGS_KEY_MAX]; /* who decided which key */
} SettingsResolved;

/* The defaults, for settings that no layer names. */
extern const SettingsResolved settings_usual;

/* The settings of a class, or NULL when there is none of that name (the name is then ignored). A class's own
 * SETTINGS_CLASS key is ignored, too: classes do not nest. */
typedef const Settings *(*settings_class_lookup_t)(const char *name, void *userdata);

void settings_resolve(const SettingsLayer *layers, size_t n_layers, settings_class_lookup_t lookup, void *userdata,
                SettingsResolved *ret);

/* The result of some layers, kept so that stronger layers can be put on top. If a stronger layer names a class, no
 * class below counts: so the result without any class is kept as well. `done`: the keys that the layers decide. */
typedef struct SettingsDecided {
        SettingsResolved resolved;
        unsigned done;
} SettingsDecided;

typedef struct SettingsBase {
        SettingsDecided all, classless;
} SettingsBase;

void settings_base_resolve(const SettingsLayer *layers, size_t n_layers, settings_class_lookup_t lookup, void *userdata,
                SettingsBase *ret);

/* The same result as settings_resolve() of these layers and, below them, those of the base. */
void settings_resolve_onto(const SettingsBase *base, const SettingsLayer *layers, size_t n_layers,
                settings_class_lookup_t lookup, void *userdata, SettingsResolved *ret);

/* Lowers *r by a layer of that source, such as a wish: smaller priority, smaller weight, smaller threshold (on top of
 * 0, the device's default, a number counts where it is less than that), a later deadline or laxity, a preemption that
 * reaches further, no gang, and a class by its values. A period counts where there was neither a maximum nor a minimum.
 * Returns whether anything changed. */
bool settings_lower_by(SettingsResolved *r, const Settings *wish, SettingsSource source, settings_class_lookup_t lookup,
                void *userdata);

/* Lowers by each of the layers, in their order. */
bool settings_lower_by_layers(SettingsResolved *r, const SettingsLayer *layers, size_t n,
                settings_class_lookup_t lookup, void *userdata);

/* settings_lowers(): whether s alone would lower the key of *than. settings_lowers_further(): whether of two settings
 * that have the key, a lowers it further than b. */
bool settings_lowers(const Settings *s, SettingsKey k, const SettingsResolved *than);
bool settings_key_is_lower(SettingsKey k, const Settings *a, const Settings *b, const SettingsResolved *than);

/* Whether a is nowhere above b: neither in priority, nor weight, nor threshold (0 counts as unlimited), and can be held
 * no less. */
bool settings_policy_is_lower_or_equal(const PolicySettings *a, const PolicySettings *b);
bool settings_is_lower_or_equal(const SettingsResolved *a, const SettingsResolved *b); /* and of groups */

/* Whether s asks for no more than *than in any key, neither by itself nor by the class that it names. */
bool settings_ask_for_no_more(
                const Settings *s, const SettingsResolved *than, settings_class_lookup_t lookup, void *userdata);

/* Removes the keys from *s that `by` decides now, itself or by the class that it names. If *s names a class that sets
 * some of these keys, the class's other keys are kept. */
void settings_give_way(Settings *s, const Settings *by, settings_class_lookup_t lookup, void *userdata);

/* Makes settings of all values in force. */
void settings_from_resolved(const SettingsResolved *r, Settings *ret);

/* Whether s gives the key the value that it has in *r. */
bool settings_holds(const SettingsResolved *r, const Settings *s, SettingsKey k);

/* Returns the settings of the group's node. */
PolicyNodeSettings settings_node(const PolicySettings *s);

bool settings_policy_equal(const PolicySettings *a, const PolicySettings *b);
