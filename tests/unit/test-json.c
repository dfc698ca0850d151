/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * xschedctl's output for scripts: values as JSON, without control characters for a terminal
 */

#include <math.h>
#include <string.h>

#include "tests/lib/unit.h"
#include "tools/shared/json.h"

/* `{"v": VALUE}` in one line, without the end of the line. */
static char *printed(const Value *v, bool pretty) {
        char *text = NULL;
        size_t size = 0;
        FILE *f = open_memstream(&text, &size);
        Json j = {.f = f, .pretty = pretty};

        assert_non_null(f);
        json_begin(&j, NULL, '{');
        json_value(&j, "v", v);
        assert_int_equal(json_end(&j), 0);
        assert_int_equal(fclose(f), 0);
        assert_true(size > 0 && text[size - 1] == '\n');
        text[size - 1] = '\0';
        return text;
}

static void check(Value v, const char *wanted) {
        _cleanup_free_ char *text = printed(&v, false);

        assert_string_equal(text, wanted);
        value_done(&v);
}

static void test_numbers(void **state) {
        check(value_uint(UINT64_MAX), "{\"v\":18446744073709551615}");
        check(value_int(INT64_MIN), "{\"v\":-9223372036854775808}");
        check(value_double(0.1), "{\"v\":0.1}");
        check(value_double(NAN), "{\"v\":null}");
        check(value_bool(true), "{\"v\":true}");
        check((Value){}, "{\"v\":null}");
}

static void test_terminals(void **state) {
        check(value_string("a/b \"c\" \\ \n\t\033[2J"), "{\"v\":\"a/b \\\"c\\\" \\\\ \\n\\t\\u001b[2J\"}");
        check(value_string("\x7f\xc2\x80\xc2\x9b"
                           "2J\xc2\xa0\xc3\xa9"),
                        "{\"v\":\"\\u007f\\u0080\\u009b2J\xc2\xa0\xc3\xa9\"}");
        check(value_string("\xe2\x80\xae\xf3\xa0\x81\x81\xf0\x9f\x98\x80"),
                        "{\"v\":\"\\u202e\\udb40\\udc41\xf0\x9f\x98\x80\"}");
        check(value_string(""), "{\"v\":\"\"}");
}

/* Users choose the names of their processes and cgroups freely. */
static void test_names_that_are_no_text(void **state) {
        check(value_string("a\xff\n\xc3z\xed\xa0\x80"), "{\"v\":\"a\\\\xff\\n\\\\xc3z\\\\xed\\\\xa0\\\\x80\"}");
        check(value_string("\xf0\x9f\x98\x80\xf0\x9f"), "{\"v\":\"\xf0\x9f\x98\x80\\\\xf0\\\\x9f\"}");
}

static void test_containers(void **state) {
        Value list = {.type = VALUE_LIST}, dict = {.type = VALUE_DICT};

        assert_int_equal(value_append(&list, value_uint(1)), 0);
        assert_int_equal(value_append(&list, (Value){.type = VALUE_LIST}), 0);
        assert_int_equal(value_append(&dict, value_uint(7)), 0);
        assert_int_equal(value_append(&dict, list), 0);
        _cleanup_free_ char *pretty = printed(&dict, true);
        assert_non_null(strstr(pretty, "\n"));
        check(dict, "{\"v\":{\"7\":[1,[]]}}");
}

/* Objects in an array, as a table is printed. */
static void test_nested(void **state) {
        _cleanup_free_ char *text = NULL;
        size_t size = 0;
        FILE *f = open_memstream(&text, &size);
        Json j = {.f = f};
        const Value one = value_uint(1);

        json_begin(&j, NULL, '[');
        for (unsigned i = 0; i < 2; i++) {
                json_begin(&j, NULL, '{');
                json_value(&j, "one", &one);
                assert_int_equal(json_end(&j), 0);
        }
        assert_int_equal(ftell(f), 0); /* the whole text or nothing is printed */
        assert_int_equal(json_end(&j), 0);
        assert_int_equal(fclose(f), 0);
        assert_string_equal(text, "[{\"one\":1},{\"one\":1}]\n");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_numbers),
                        cmocka_unit_test(test_terminals),
                        cmocka_unit_test(test_names_that_are_no_text),
                        cmocka_unit_test(test_containers),
                        cmocka_unit_test(test_nested),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
