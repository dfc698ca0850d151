/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A new setting is one row: Depth is in the table that this is built with, and nowhere else
 */

#include <stdio.h>
#include <sys/socket.h>

#include "service/bus/settings-message.h"
#include "service/settings/class.h"
#include "service/settings/json-util.h"
#include "tests/lib/unit.h"

static const Settings *no_class(const char *name, void *userdata) {
        return NULL;
}

static Settings depth(int64_t v) {
        Settings s = SETTINGS_NULL;

        assert_int_equal(settings_set_depth(&s, v), 0);
        return s;
}

static void test_text(void **state) {
        Settings s = SETTINGS_NULL;
        char buf[32];

        assert_int_equal(settings_set_string(&s, "Depth", "65"), -ERANGE);
        assert_int_equal(settings_set_string(&s, "Depth", "0"), -ERANGE);
        assert_int_equal(settings_set_string(&s, "Depth", "x"), -EINVAL);
        assert_true(settings_is_empty(&s));
        assert_int_equal(settings_set_string(&s, "Depth", "5"), 0);
        assert_int_equal(s.depth_n, 5);
        assert_string_equal(settings_format(&s, SETTINGS_DEPTH, buf, sizeof(buf)), "5");
        assert_string_equal(settings_key_range(SETTINGS_DEPTH), "an integer, 1..64");
        assert_int_equal(settings_unset(&s, "Depth"), 0);
}

static void test_resolved(void **state) {
        const Settings five = depth(5), nine = depth(9);
        const SettingsLayer layers[] = {{SETTINGS_FROM_SLICE, NULL, &nine}, {SETTINGS_FROM_JOB, NULL, &five}};
        SettingsResolved r;

        settings_resolve(NULL, 0, no_class, NULL, &r);
        assert_int_equal(r.depth_n, 8);
        settings_resolve(layers, 2, no_class, NULL, &r); /* a slice's Depth is for the slice itself */
        assert_int_equal(r.depth_n, 5);
        assert_int_equal(r.from[SETTINGS_DEPTH], SETTINGS_FROM_JOB);
        assert_true(settings_key_is_of_groups(SETTINGS_DEPTH));

        assert_false(settings_lower_by(&r, &nine, SETTINGS_FROM_WISH, no_class, NULL));
        assert_false(settings_ask_for_no_more(&nine, &r, no_class, NULL));
        const Settings two = depth(2);
        assert_true(settings_ask_for_no_more(&two, &r, no_class, NULL));
        assert_true(settings_lower_by(&r, &two, SETTINGS_FROM_WISH, no_class, NULL));
        assert_int_equal(r.depth_n, 2);
        assert_int_equal(r.from[SETTINGS_DEPTH], SETTINGS_FROM_WISH);
        assert_true(settings_holds(&r, &two, SETTINGS_DEPTH));

        Settings all;
        settings_from_resolved(&r, &all);
        assert_int_equal(all.depth_n, 2);
        settings_merge(&all, &nine);
        assert_int_equal(all.depth_n, 9);
        assert_false(settings_is_equal(&two, &nine));
}

/* Class files and unit files are read by the same table. */
static void test_files(void **state) {
        const ConfSection *section = class_sections;
        const ConfItem *item = section->items + SETTINGS_DEPTH;
        Class class = {};

        assert_string_equal(item->key, "Depth");
        assert_int_equal(item->type->parse("65", item, (char *) &class + item->offset), -ERANGE);
        assert_int_equal(item->type->parse("7", item, (char *) &class + item->offset), 0);
        assert_int_equal(class.settings.depth_n, 7);
        for (size_t i = 0; i < section->n_items; i++)
                assert_non_null(section->items[i].key);
}

static void test_kept(void **state) {
        json_object *o = json_object_new_object();
        const Settings five = depth(5);
        Settings again;

        assert_int_equal(json_add_settings(o, "settings", &five), 0);
        assert_string_equal(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN), "{\"settings\":{\"Depth\":5}}");
        json_get_settings(o, "settings", &again);
        assert_true(settings_is_equal(&five, &again));
        json_object_put(o);
}

/* Makes a message that is never sent. */
static sd_bus_message *new_message(sd_bus **bus) {
        sd_bus_message *m;
        int fds[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
        assert_return_code(sd_bus_new(bus), 0);
        assert_return_code(sd_bus_set_fd(*bus, fds[0], fds[0]), 0);
        assert_return_code(sd_bus_start(*bus), 0);
        assert_return_code(sd_bus_message_new_signal(*bus, &m, "/", "org.xsched.Test", "Test"), 0);
        (void) close(fds[1]);
        return m;
}

static void test_bus(void **state) {
        const char *const group[] = {SETTING_ROWS(SETTING_OF_GROUP, )};
        const char *const client[] = {SETTING_ROWS(SETTING_OF_CLIENT, )};
        sd_bus_error error = SD_BUS_ERROR_NULL;
        Settings s = SETTINGS_NULL;
        const Settings five = depth(5);
        sd_bus *bus;
        sd_bus_message *m = new_message(&bus);

        assert_int_equal(ELEMENTSOF(group), _SETTINGS_KEY_MAX);
        assert_string_equal(group[SETTINGS_DEPTH], "Depth");
        assert_string_not_equal(client[0], "Depth"); /* Depth is a setting of groups only */

        assert_return_code(bus_append_settings(m, &five), 0);
        assert_return_code(sd_bus_message_append(m, "u", UINT32_C(64)), 0);
        assert_return_code(sd_bus_message_append(m, "u", UINT32_C(65)), 0);
        assert_return_code(sd_bus_message_seal(m, 1, 0), 0);

        const char *key;
        uint32_t v;
        assert_return_code(sd_bus_message_enter_container(m, 'a', "{sv}"), 0);
        assert_return_code(sd_bus_message_read(m, "{sv}", &key, "u", &v), 0);
        assert_string_equal(key, "Depth");
        assert_int_equal(v, 5);
        assert_return_code(sd_bus_message_exit_container(m), 0);
        assert_true(bus_take_setting(m, "Depth", "i", &s, &error) < 0);
        assert_string_equal(error.message, "Depth must be of type 'u', not 'i'");
        sd_bus_error_free(&error);
        assert_int_equal(bus_take_setting(m, "Depth", "u", &s, &error), 0);
        assert_int_equal(s.depth_n, 64);
        assert_true(bus_take_setting(m, "Depth", "u", &s, &error) < 0);
        assert_string_equal(error.message, "Depth must be an integer, 1..64");
        sd_bus_error_free(&error);
        sd_bus_message_unref(m);
        sd_bus_close_unref(bus);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_text),
                        cmocka_unit_test(test_resolved),
                        cmocka_unit_test(test_files),
                        cmocka_unit_test(test_kept),
                        cmocka_unit_test(test_bus),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
