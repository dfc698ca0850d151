/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Settings: layers, classes, wishes, refused values
 */

#include <string.h>

#include "service/settings/settings.h"
#include "tests/lib/unit.h"

static Settings make(const char *key, const char *value) {
        Settings s = SETTINGS_NULL;
        assert_int_equal(settings_set_string(&s, key, value), 0);
        return s;
}

/* "batch" is low and light, "fast" only has a priority. */
static const Settings *lookup(const char *name, void *userdata) {
        static Settings batch, fast;

        *(unsigned *) userdata += 1;
        batch = make("Priority", "-10");
        assert_int_equal(settings_set_weight(&batch, 20), 0);
        fast = make("Priority", "10");
        if (streq(name, "batch"))
                return &batch;
        return streq(name, "fast") ? &fast : NULL;
}

static SettingsResolved resolve(const SettingsLayer *layers, size_t n) {
        SettingsResolved r;
        unsigned n_lookups = 0;

        settings_resolve(layers, n, lookup, &n_lookups, &r);
        return r;
}

static void test_nothing(void **state) {
        const Settings empty = SETTINGS_NULL;
        const SettingsLayer layers[] = {{SETTINGS_FROM_OVERRIDE, NULL, &empty}, {SETTINGS_FROM_JOB, NULL, NULL}};

        SettingsResolved r = resolve(layers, 2);
        assert_int_equal(r.policy.priority, POLICY_PRIORITY_DEFAULT);
        assert_int_equal(r.policy.weight, POLICY_WEIGHT_DEFAULT);
        assert_int_equal(r.policy.threshold, 0);
        assert_int_equal(r.source, SETTINGS_FROM_DEFAULT);
        assert_string_equal(r.class, "");
}

static void test_strongest_wins_each_key(void **state) {
        const Settings over = make("Priority", "5"), job = make("Weight", "300"), low = make("Priority", "-5");
        const SettingsLayer layers[] = {
                        {SETTINGS_FROM_OVERRIDE, NULL, &over},
                        {SETTINGS_FROM_JOB, NULL, &job},
                        {SETTINGS_FROM_DEFAULT, NULL, &low},
        };

        SettingsResolved r = resolve(layers, 3);
        assert_int_equal(r.policy.priority, 5);
        assert_int_equal(r.policy.weight, 300);
        assert_int_equal(r.source, SETTINGS_FROM_OVERRIDE);
        assert_int_equal(r.from[SETTINGS_PRIORITY], SETTINGS_FROM_OVERRIDE);
        assert_int_equal(r.from[SETTINGS_WEIGHT], SETTINGS_FROM_JOB);
        assert_int_equal(r.from[SETTINGS_THRESHOLD], SETTINGS_FROM_DEFAULT);
}

/* A class counts right after the layer that names it, and before the layers that follow. */
static void test_class_of_a_layer(void **state) {
        const Settings job = make("Class", "batch"), base = make("Weight", "1000");
        Settings over = make("Weight", "50");
        const SettingsLayer layers[] = {
                        {SETTINGS_FROM_OVERRIDE, NULL, &over},
                        {SETTINGS_FROM_JOB, NULL, &job},
                        {SETTINGS_FROM_DEFAULT, NULL, &base},
        };

        SettingsResolved r = resolve(layers, 3);
        assert_int_equal(r.policy.priority, -10);
        assert_int_equal(r.policy.weight, 50);
        assert_string_equal(r.class, "batch");
        assert_int_equal(r.from[SETTINGS_CLASS], SETTINGS_FROM_JOB);

        /* Without the override the class's weight counts before the default layer's. */
        r = resolve(layers + 1, 2);
        assert_int_equal(r.policy.weight, 20);
        assert_int_equal(r.source, SETTINGS_FROM_JOB);
}

/* Once one layer has chosen a class, the class of a weaker layer is not even looked up. */
static void test_one_class_only(void **state) {
        const Settings over = make("Class", "fast"), job = make("Class", "batch");
        const SettingsLayer layers[] = {{SETTINGS_FROM_OVERRIDE, NULL, &over}, {SETTINGS_FROM_JOB, NULL, &job}};
        unsigned n_lookups = 0;
        SettingsResolved r;

        settings_resolve(layers, 2, lookup, &n_lookups, &r);
        assert_int_equal(n_lookups, 1);
        assert_string_equal(r.class, "fast");
        assert_int_equal(r.policy.priority, 10);
        assert_int_equal(r.policy.weight, POLICY_WEIGHT_DEFAULT);
}

static void test_unknown_class_is_passed_over(void **state) {
        const Settings over = make("Class", "gone"), job = make("Class", "batch");
        const SettingsLayer layers[] = {{SETTINGS_FROM_OVERRIDE, NULL, &over}, {SETTINGS_FROM_JOB, NULL, &job}};

        SettingsResolved r = resolve(layers, 2);
        assert_string_equal(r.class, "batch");
        assert_int_equal(r.source, SETTINGS_FROM_JOB);
        assert_int_equal(r.policy.priority, -10);
}

static void test_wish_only_lowers(void **state) {
        SettingsResolved r = {.policy = {.priority = 0, .weight = 100, .threshold = 4}};
        unsigned n = 0;

        Settings high = make("Priority", "100");
        assert_int_equal(settings_set_weight(&high, 5000), 0);
        assert_int_equal(settings_set_threshold(&high, 0), 0); /* 0 is the default, which is more than any number */
        assert_false(settings_lower_by(&r, &high, SETTINGS_FROM_WISH, lookup, &n));
        assert_int_equal(r.policy.priority, 0);
        assert_int_equal(r.policy.weight, 100);
        assert_int_equal(r.policy.threshold, 4);
        assert_int_equal(r.source, SETTINGS_FROM_DEFAULT);

        Settings low = make("Priority", "-1");
        assert_int_equal(settings_set_threshold(&low, 2), 0);
        assert_true(settings_lower_by(&r, &low, SETTINGS_FROM_WISH, lookup, &n));
        assert_int_equal(r.policy.priority, -1);
        assert_int_equal(r.policy.weight, 100);
        assert_int_equal(r.policy.threshold, 2);
        assert_int_equal(r.source, SETTINGS_FROM_WISH);
        assert_int_equal(r.from[SETTINGS_WEIGHT], SETTINGS_FROM_DEFAULT);
}

static void test_wish_of_preemption(void **state) {
        SettingsResolved r = {.policy = {.preemption = PREEMPTION_GATE}};
        unsigned n = 0;
        Settings off = make("Preemption", "off"), further = make("Preemption", "3"), gang = make("Gang", "yes"),
                 no_gang = make("Gang", "no");

        assert_false(settings_lower_by(&r, &off, SETTINGS_FROM_WISH, lookup, &n));
        assert_int_equal(r.policy.preemption, PREEMPTION_GATE);
        assert_true(settings_lower_by(&r, &further, SETTINGS_FROM_WISH, lookup, &n));
        assert_int_equal(r.policy.preemption, PREEMPTION_INTERRUPT);
        assert_int_equal(r.from[SETTINGS_PREEMPTION], SETTINGS_FROM_WISH);
        assert_false(settings_lower_by(&r, &gang, SETTINGS_FROM_WISH, lookup, &n));
        assert_false(r.policy.gang);
        r.policy.gang = true;
        assert_true(settings_lower_by(&r, &no_gang, SETTINGS_FROM_WISH, lookup, &n));
        assert_false(r.policy.gang);
}

static void test_wish_of_time(void **state) {
        SettingsResolved r = settings_usual;
        unsigned n = 0;
        Settings soon = make("Deadline", "5ms"), late = make("Deadline", "20ms"), never = make("Deadline", "0");
        Settings part = make("Utilization", "30"), more = make("Utilization", "31");
        Settings active = make("Active", "yes"), critical = make("Critical", "1");

        assert_false(settings_lower_by(&r, &soon, SETTINGS_FROM_WISH, lookup, &n)); /* a deadline is more than none */
        r.policy.deadline_us = 10000;
        assert_false(settings_lower_by(&r, &soon, SETTINGS_FROM_WISH, lookup, &n));
        assert_true(settings_lower_by(&r, &late, SETTINGS_FROM_WISH, lookup, &n));
        assert_int_equal(r.policy.deadline_us, 20000);
        assert_true(settings_lower_by(&r, &never, SETTINGS_FROM_WISH, lookup, &n));
        assert_int_equal(r.policy.deadline_us, 0);
        assert_true(settings_lower_by(&r, &part, SETTINGS_FROM_WISH, lookup, &n));
        assert_false(settings_lower_by(&r, &more, SETTINGS_FROM_WISH, lookup, &n));
        assert_int_equal(r.policy.utilization, 30);
        assert_false(settings_lower_by(&r, &active, SETTINGS_FROM_WISH, lookup, &n));
        assert_false(settings_lower_by(&r, &critical, SETTINGS_FROM_WISH, lookup, &n));
}

static void test_wish_for_a_class(void **state) {
        SettingsResolved r = {.policy = POLICY_SETTINGS_DEFAULT};
        unsigned n = 0;

        Settings fast = make("Class", "fast"), batch = make("Class", "batch"), none = make("Class", "none");
        assert_false(settings_lower_by(&r, &fast, SETTINGS_FROM_WISH, lookup, &n));
        assert_false(settings_lower_by(&r, &none, SETTINGS_FROM_WISH, lookup, &n));
        assert_true(settings_lower_by(&r, &batch, SETTINGS_FROM_WISH, lookup, &n));
        assert_int_equal(r.policy.priority, -10);
        assert_int_equal(r.policy.weight, 20);
}

static void test_ranges(void **state) {
        Settings s = SETTINGS_NULL;

        assert_int_equal(settings_set_priority(&s, POLICY_PRIORITY_MAX + 1), -ERANGE);
        assert_int_equal(settings_set_priority(&s, POLICY_PRIORITY_MIN - 1), -ERANGE);
        assert_int_equal(settings_set_weight(&s, 0), -ERANGE);
        assert_int_equal(settings_set_weight(&s, 10001), -ERANGE);
        assert_int_equal(settings_set_threshold(&s, -1), -ERANGE);
        assert_int_equal(settings_set_threshold(&s, 65536), -ERANGE);
        assert_int_equal(settings_set_class(&s, ""), -EINVAL);
        assert_int_equal(settings_set_class(&s, ".hidden"), -EINVAL);
        assert_int_equal(settings_set_class(&s, "a/b"), -EINVAL);
        assert_int_equal(settings_set_class(&s, "0123456789012345678901234567890123456789012345678901234567890123"),
                        -EINVAL);
        assert_true(settings_is_empty(&s));

        assert_int_equal(settings_set_priority(&s, POLICY_PRIORITY_MIN), 0);
        assert_int_equal(settings_set_weight(&s, 10000), 0);
        assert_int_equal(settings_set_threshold(&s, 65535), 0);
        assert_int_equal(settings_set_class(&s, "012345678901234567890123456789012345678901234567890123456789012"), 0);
        assert_int_equal(settings_set_preemption(&s, "4"), -EINVAL);
        assert_int_equal(settings_set_preemption(&s, "privileged"), 0);
        assert_int_equal(settings_set_gang(&s, false), 0);
        assert_int_equal(settings_set_deadline(&s, 3600000001), -ERANGE);
        assert_int_equal(settings_set_deadline(&s, 3600000000), 0);
        assert_int_equal(settings_set_laxity(&s, -1), -ERANGE);
        assert_int_equal(settings_set_laxity(&s, 0), 0);
        assert_int_equal(settings_set_critical(&s, POLICY_PRIORITY_MAX), 0);
        assert_int_equal(settings_set_utilization(&s, 0), -ERANGE);
        assert_int_equal(settings_set_utilization(&s, 1), 0);
        assert_int_equal(settings_set_active(&s, true), 0);
        assert_int_equal(settings_set_max(&s, 10001), -ERANGE);
        assert_int_equal(settings_set_max(&s, 10000), 0);
        assert_int_equal(settings_set_min(&s, 101), -ERANGE);
        assert_int_equal(settings_set_min(&s, 100), 0);
        assert_int_equal(settings_set_period(&s, 999), -ERANGE);
        assert_int_equal(settings_set_period(&s, 10000001), -ERANGE);
        assert_int_equal(settings_set_period(&s, 1000), 0);
        assert_int_equal(settings_set_accounting(&s, "always"), -EINVAL);
        assert_int_equal(settings_set_accounting(&s, "exact"), 0);
        assert_int_equal(s.mask, (1U << _SETTINGS_KEY_MAX) - 1);
}

static void test_strings(void **state) {
        static const struct {
                const char *key, *value;
                int r;
        } cases[] = {
                        {"Priority", "-255", 0},
                        {"Priority", "+7", 0},
                        {"Priority", "256", -ERANGE},
                        {"Priority", "", -EINVAL},
                        {"Priority", "5x", -EINVAL},
                        {"Priority", " 5", -EINVAL},
                        {"Priority", "99999999999999999999", -ERANGE},
                        {"Weight", "1", 0},
                        {"Weight", "-1", -ERANGE},
                        {"Weight", "0x10", -EINVAL},
                        {"Threshold", "0", 0},
                        {"Preemption", "auto", 0},
                        {"Preemption", "2", 0},
                        {"Preemption", "0", -EINVAL},
                        {"Preemption", "", -EINVAL},
                        {"Gang", "yes", 0},
                        {"Gang", "2", -EINVAL},
                        {"Deadline", "20ms", 0},
                        {"Deadline", "0", 0},
                        {"Deadline", "61min", -ERANGE},
                        {"Laxity", "1h", 0},
                        {"Laxity", "2h", -ERANGE},
                        {"Critical", "-255", 0},
                        {"Critical", "256", -ERANGE},
                        {"Utilization", "30%", 0},
                        {"Utilization", "100", 0},
                        {"Utilization", "0", -ERANGE},
                        {"Utilization", "101", -ERANGE},
                        {"Active", "yes", 0},
                        {"Active", "maybe", -EINVAL},
                        {"Max", "50%", 0},
                        {"Max", "250", 0},
                        {"Max", "infinity", 0},
                        {"Max", "10001%", -ERANGE},
                        {"Max", "-1%", -EINVAL},
                        {"Max", "%", -EINVAL},
                        {"Max", "5%%", -EINVAL},
                        {"Min", "100%", 0},
                        {"Min", "101%", -ERANGE},
                        {"Min", "infinity", -EINVAL},
                        {"Utilization", "infinity", -EINVAL},
                        {"Period", "100ms", 0},
                        {"Period", "2", 0},
                        {"Period", "11s", -ERANGE},
                        {"Period", "ms", -EINVAL},
                        {"Class", "batch", 0},
                        {"Class", "no such", -EINVAL},
                        {"priority", "1", -ENOENT},
                        {"Nice", "1", -ENOENT},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                Settings s = SETTINGS_NULL;
                assert_int_equal(settings_set_string(&s, cases[i].key, cases[i].value), cases[i].r);
                assert_int_equal(settings_is_empty(&s), cases[i].r < 0);
        }
        for (SettingsKey k = 0; k < _SETTINGS_KEY_MAX; k++) {
                assert_non_null(settings_key_range(k));
                assert_int_equal(settings_key_from_string(settings_key_to_string(k)), k);
        }
        for (SettingsSource k = 0; k < _SETTINGS_SOURCE_MAX; k++)
                for (SettingsSource other = 0; other < k; other++)
                        assert_string_not_equal(settings_source_to_string(other), settings_source_to_string(k));
}

static void test_unset(void **state) {
        Settings s = SETTINGS_NULL, change = SETTINGS_NULL;

        assert_int_equal(settings_set_weight(&s, 5), 0);
        assert_int_equal(settings_set_priority(&s, 6), 0);
        assert_int_equal(settings_set_weight(&change, 7), 0);
        assert_int_equal(settings_unset(&change, "Weight"), 0);
        assert_int_equal(settings_unset(&change, "Priority"), 0);
        assert_int_equal(settings_unset(&change, "Nonsense"), -ENOENT);
        settings_merge(&s, &change);
        assert_false(settings_has(&s, SETTINGS_PRIORITY));
        assert_int_equal(s.weight, 7); /* a change sets keys after it removes others */
        assert_int_equal(s.unset, 0);
}

static void test_merge(void **state) {
        Settings s = make("Priority", "3");
        const Settings weight = make("Weight", "7"), priority = make("Priority", "4");

        settings_merge(&s, &weight);
        settings_merge(&s, &priority);
        assert_int_equal(s.priority, 4);
        assert_int_equal(s.weight, 7);
        assert_true(settings_has(&s, SETTINGS_PRIORITY) && settings_has(&s, SETTINGS_WEIGHT));
        assert_false(settings_has(&s, SETTINGS_THRESHOLD));
}

static void test_comparison(void **state) {
        const PolicySettings base = {.priority = 0, .weight = 100, .threshold = 0};
        PolicySettings a = base;

        assert_true(settings_policy_is_lower_or_equal(&a, &base));
        a.threshold = 8;
        assert_true(settings_policy_is_lower_or_equal(&a, &base));
        assert_false(settings_policy_is_lower_or_equal(&base, &a));
        a.weight = 101;
        assert_false(settings_policy_is_lower_or_equal(&a, &base));
        a.weight = 1;
        a.priority = 1;
        assert_false(settings_policy_is_lower_or_equal(&a, &base));

        /* A client that may be held only at the gate has more than the base; one that may be held by further means has
         * less. */
        a = base;
        a.preemption = PREEMPTION_GATE;
        assert_false(settings_policy_is_lower_or_equal(&a, &base));
        assert_false(settings_policy_equal(&a, &base));
        a.preemption = PREEMPTION_PRIVILEGED;
        assert_true(settings_policy_is_lower_or_equal(&a, &base));
        assert_false(settings_policy_is_lower_or_equal(&base, &a));

        /* A gang gets more than its weight on all its devices but one. */
        a.gang = true;
        assert_false(settings_policy_is_lower_or_equal(&a, &base));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_unset),
                        cmocka_unit_test(test_nothing),
                        cmocka_unit_test(test_strongest_wins_each_key),
                        cmocka_unit_test(test_class_of_a_layer),
                        cmocka_unit_test(test_one_class_only),
                        cmocka_unit_test(test_unknown_class_is_passed_over),
                        cmocka_unit_test(test_wish_only_lowers),
                        cmocka_unit_test(test_wish_of_preemption),
                        cmocka_unit_test(test_wish_of_time),
                        cmocka_unit_test(test_wish_for_a_class),
                        cmocka_unit_test(test_ranges),
                        cmocka_unit_test(test_strings),
                        cmocka_unit_test(test_merge),
                        cmocka_unit_test(test_comparison),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
