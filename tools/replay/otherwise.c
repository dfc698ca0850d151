/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Applies changed parameters of the policy, and changed settings of groups
 */

#include <strings.h>

#include "common/parse-util.h"
#include "otherwise.h"
#include "replay.h"

typedef enum KeyType { KEY_U32, KEY_INT, KEY_BOOL, KEY_SPAN_NS, KEY_SPAN_US, KEY_PERCENT, KEY_LIMIT } KeyType;

typedef struct Key {
        const char *name;
        KeyType type;
        size_t offset;
        int64_t min, max; /* of spans: ns */
} Key;

#define SPAN_MAX (INT64_MAX / 4)

static const Key config_keys[] = {
                {"concurrency", KEY_U32, offsetof(PolicyConfig, concurrency), 1, UINT32_MAX},
                {"timeslice", KEY_SPAN_NS, offsetof(PolicyConfig, timeslice_ns), 1, 10 * (int64_t) NSEC_PER_SEC},
                {"threshold", KEY_U32, offsetof(PolicyConfig, threshold), 0, UINT32_MAX},
                {"linger", KEY_SPAN_NS, offsetof(PolicyConfig, linger_ns), 0, SPAN_MAX},
                {"starve", KEY_SPAN_NS, offsetof(PolicyConfig, starve_ns), 1, SPAN_MAX},
                {"starverun", KEY_SPAN_NS, offsetof(PolicyConfig, starve_run_ns), 0, SPAN_MAX},
};

static const Key entity_keys[] = {
                {"priority", KEY_INT, offsetof(PolicySettings, priority), POLICY_PRIORITY_MIN, POLICY_PRIORITY_MAX},
                {"weight", KEY_U32, offsetof(PolicySettings, weight), POLICY_WEIGHT_MIN, POLICY_WEIGHT_MAX},
                {"threshold", KEY_U32, offsetof(PolicySettings, threshold), 0, UINT32_MAX},
                {"deadline", KEY_SPAN_US, offsetof(PolicySettings, deadline_us), 0, POLICY_DELAY_MAX},
                {"laxity", KEY_SPAN_US, offsetof(PolicySettings, laxity_us), 0, POLICY_DELAY_MAX},
                {"critical", KEY_INT, offsetof(PolicySettings, critical), POLICY_PRIORITY_MIN, POLICY_PRIORITY_MAX},
                {"utilization", KEY_U32, offsetof(PolicySettings, utilization), 1, POLICY_UTILIZATION_MAX},
                {"active", KEY_BOOL, offsetof(PolicySettings, active), 0, 0},
};

static const Key node_keys[] = {
                {"weight", KEY_U32, offsetof(PolicyNodeSettings, weight), POLICY_WEIGHT_MIN, POLICY_WEIGHT_MAX},
                {"max", KEY_LIMIT, offsetof(PolicyNodeSettings, max), 0, POLICY_MAX_MAX},
                {"min", KEY_PERCENT, offsetof(PolicyNodeSettings, min), 0, POLICY_MIN_MAX},
                {"period", KEY_SPAN_NS, offsetof(PolicyNodeSettings, period_ns), POLICY_PERIOD_MIN, POLICY_PERIOD_MAX},
                {"utilization", KEY_U32, offsetof(PolicyNodeSettings, utilization), 1, POLICY_UTILIZATION_MAX},
};

static const Key *find_key(const Key *keys, size_t n, const char *name, size_t length) {
        for (size_t i = 0; i < n; i++)
                if (strlen(keys[i].name) == length && strncasecmp(keys[i].name, name, length) == 0)
                        return keys + i;
        return NULL;
}

static int take(const Key *k, const char *value, void *object) {
        void *p = (char *) object + k->offset;
        int64_t i = 0;
        uint64_t u = 0;
        int r;

        switch (k->type) {
        case KEY_BOOL:
                r = parse_bool(value);
                if (r >= 0)
                        *(bool *) p = r;
                return MIN(r, 0);
        case KEY_SPAN_NS:
        case KEY_SPAN_US:
                r = parse_nsec(value, &u);
                if (r >= 0 && (u > (uint64_t) k->max || u < (uint64_t) k->min))
                        r = -ERANGE;
                if (r >= 0 && k->type == KEY_SPAN_NS)
                        *(uint64_t *) p = u;
                else if (r >= 0)
                        *(uint32_t *) p = (uint32_t) (u / NSEC_PER_USEC);
                return r;
        case KEY_PERCENT:
        case KEY_LIMIT:
                r = k->type == KEY_PERCENT ? parse_percent(value, &u) : parse_limit(value, &u);
                if (r >= 0 && u > (uint64_t) k->max)
                        r = -ERANGE;
                if (r >= 0)
                        *(uint32_t *) p = (uint32_t) u;
                return r;
        default:
                r = parse_int64(value, k->min, k->max, &i);
                if (r >= 0 && k->type == KEY_INT)
                        *(int *) p = (int) i;
                else if (r >= 0)
                        *(uint32_t *) p = (uint32_t) i;
                return r;
        }
}

static int refuse(int r, const char *key, size_t length, const char *value, char *why, size_t size) {
        (void) snprintf(why, size, "%.*s=%s: %s", (int) length, key, value,
                        r == -ERANGE ? "out of range" : "not a value of this key");
        return -EINVAL;
}

int otherwise_config(const Otherwise *o, PolicyConfig *c, char *why, size_t size) {
        for (size_t i = 0; i < o->n_params; i++) {
                const char *text = o->params[i], *equals = strchr(text, '=');
                size_t length = equals ? (size_t) (equals - text) : strlen(text);
                const Key *k = find_key(config_keys, ELEMENTSOF(config_keys), text, length);

                if (!equals || !k) {
                        (void) snprintf(why, size, "%s: not KEY=VALUE with a key of a policy", text);
                        return -EINVAL;
                }
                int r = take(k, equals + 1, c);
                if (r < 0)
                        return refuse(r, text, length, equals + 1, why, size);
        }
        return 0;
}

/* Applies the settings for the group whose keys this table has. A key that neither table has is refused. */
static int apply(Otherwise *o, const char *group, const Key *keys, size_t n, const Key *others, size_t n_others,
                void *object, char *why, size_t size) {
        for (size_t i = 0; i < o->n_sets; i++) {
                ReplaySet *s = o->sets + i;
                size_t length = strcspn(s->key, "=");
                const Key *k = find_key(keys, n, s->key, length);

                if (!streq(s->group, group))
                        continue;
                s->known = true;
                s->has_key |= k != NULL;
                if (!k && !find_key(others, n_others, s->key, length)) {
                        (void) snprintf(why, size, "--set=: %.*s: no such setting of a group", (int) length, s->key);
                        return -EINVAL;
                }
                int r = k ? take(k, s->value, object) : 0;
                if (r < 0)
                        return refuse(r, s->key, length, s->value, why, size);
        }
        return 0;
}

int otherwise_entity(Otherwise *o, const char *group, PolicySettings *s, char *why, size_t size) {
        return apply(o, group, entity_keys, ELEMENTSOF(entity_keys), node_keys, ELEMENTSOF(node_keys), s, why, size);
}

int otherwise_node(Otherwise *o, const char *group, PolicyNodeSettings *s, char *why, size_t size) {
        return apply(o, group, node_keys, ELEMENTSOF(node_keys), entity_keys, ELEMENTSOF(entity_keys), s, why, size);
}

int otherwise_check_groups(const Otherwise *o, char *why, size_t size) {
        for (size_t i = 0; i < o->n_sets; i++) {
                const ReplaySet *s = o->sets + i;

                if (s->known && s->has_key)
                        continue;
                (void) snprintf(why, size, "--set=%s:%s: no such group in the recording%s", s->group, s->key,
                                s->known ? " that has this setting" : "");
                return -EINVAL;
        }
        return 0;
}
