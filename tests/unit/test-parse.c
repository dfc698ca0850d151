/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * From text to numbers: accepted texts, refused texts, and that a refused text changes nothing
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/parse-util.h"
#include "common/time-util.h"
#include "common/utf8.h"

#define UNTOUCHED UINT64_C(0xdeadbeef)

static void check_nsec(const char *s, uint64_t expected) {
        uint64_t v = UNTOUCHED;
        assert_int_equal(parse_nsec(s, &v), 0);
        assert_int_equal(v, expected);
}

static void check_nsec_fails(const char *s, int error) {
        uint64_t v = UNTOUCHED;
        assert_int_equal(parse_nsec(s, &v), error);
        assert_int_equal(v, UNTOUCHED);
}

static void test_nsec(void **state) {
        check_nsec("0", 0);
        check_nsec("1", NSEC_PER_SEC);
        check_nsec("250us", 250 * NSEC_PER_USEC);
        check_nsec("250\xc2\xb5s", 250 * NSEC_PER_USEC);
        check_nsec("250\xce\xbcs", 250 * NSEC_PER_USEC);
        check_nsec("250usec", 250 * NSEC_PER_USEC);
        check_nsec("17ns", 17);
        check_nsec("17nsec", 17);
        check_nsec("5ms", 5 * NSEC_PER_MSEC);
        check_nsec("5 msec", 5 * NSEC_PER_MSEC);
        check_nsec("1s", NSEC_PER_SEC);
        check_nsec("2min 3s", 123 * NSEC_PER_SEC);
        check_nsec("2min3s", 123 * NSEC_PER_SEC);
        check_nsec("2m 3", 123 * NSEC_PER_SEC);
        check_nsec("1h", 3600 * NSEC_PER_SEC);
        check_nsec("1 hour 1 minute 1 second", 3661 * NSEC_PER_SEC);
        check_nsec("2hours", 7200 * NSEC_PER_SEC);
        check_nsec("1d", 86400 * NSEC_PER_SEC);
        check_nsec("1.5s", 1500 * NSEC_PER_MSEC);
        check_nsec(".5ms", 500 * NSEC_PER_USEC);
        check_nsec("0.0000000001s", 0);
        check_nsec("infinity", NSEC_INFINITY);
        check_nsec("18446744073709551614ns", UINT64_MAX - 1);
}

static void test_nsec_refused(void **state) {
        static const char *const invalid[] = {"", " ", "ms", "5 lightyears", "-5ms", "+5ms", "5ms,", "5 3s", "1.",
                        "1.s", ".", "0x10", "1e3", "5ms infinity", "infinity ", "5Ms", "1s foo"};

        for (size_t i = 0; i < ELEMENTSOF(invalid); i++)
                check_nsec_fails(invalid[i], -EINVAL);

        check_nsec_fails("18446744073709551615ns", -ERANGE); /* would read as infinity */
        check_nsec_fails("18446744073709551616ns", -ERANGE);
        check_nsec_fails("99999999999999999999s", -ERANGE);
        check_nsec_fails("18446744073s 18446744073s", -ERANGE);
        check_nsec_fails("300000d", -ERANGE);
}

static void check_format(uint64_t ns, const char *expected) {
        char buf[FORMAT_NSEC_MAX];
        uint64_t back = UNTOUCHED;

        assert_string_equal(format_nsec(buf, sizeof(buf), ns), expected);
        assert_int_equal(parse_nsec(buf, &back), 0);
        assert_int_equal(back, ns);
}

static void test_format_nsec(void **state) {
        check_format(0, "0");
        check_format(1, "1ns");
        check_format(250 * NSEC_PER_USEC, "250us");
        check_format(123 * NSEC_PER_SEC, "2min 3s");
        check_format(NSEC_INFINITY, "infinity");
        check_format(NSEC_INFINITY - 1, "213503d 23h 34min 33s 709ms 551us 614ns");

        /* Too small a buffer: cut off, never overrun. */
        char tiny[5] = "####";
        (void) format_nsec(tiny, 4, 123 * NSEC_PER_SEC);
        assert_string_equal(tiny, "2mi");
        assert_int_equal(tiny[4], '\0');
}

static void test_integers(void **state) {
        uint64_t u = UNTOUCHED;
        int64_t i = -1;

        assert_int_equal(parse_uint64("18446744073709551615", 0, UINT64_MAX, &u), 0);
        assert_true(u == UINT64_MAX);
        u = UNTOUCHED;
        assert_int_equal(parse_uint64("18446744073709551616", 0, UINT64_MAX, &u), -ERANGE);
        assert_int_equal(parse_uint64("5", 6, 7, &u), -ERANGE);
        assert_int_equal(parse_uint64("8", 6, 7, &u), -ERANGE);
        assert_int_equal(parse_uint64("", 0, 9, &u), -EINVAL);
        assert_int_equal(parse_uint64("-1", 0, 9, &u), -EINVAL);
        assert_int_equal(parse_uint64("+1", 0, 9, &u), -EINVAL);
        assert_int_equal(parse_uint64(" 1", 0, 9, &u), -EINVAL);
        assert_int_equal(parse_uint64("1 ", 0, 9, &u), -EINVAL);
        assert_int_equal(parse_uint64("99999999999999999999x", 0, 9, &u), -EINVAL);
        assert_int_equal(u, UNTOUCHED);

        assert_int_equal(parse_int64("-255", -255, 255, &i), 0);
        assert_int_equal(i, -255);
        assert_int_equal(parse_int64("+255", -255, 255, &i), 0);
        assert_int_equal(i, 255);
        assert_int_equal(parse_int64("-256", -255, 255, &i), -ERANGE);
        assert_int_equal(parse_int64("-", -255, 255, &i), -EINVAL);
        assert_int_equal(parse_int64("--5", -255, 255, &i), -EINVAL);
        assert_int_equal(parse_int64("9223372036854775808", INT64_MIN, INT64_MAX, &i), -ERANGE);
        assert_int_equal(i, 255);
}

static void test_bool(void **state) {
        assert_int_equal(parse_bool("yes"), 1);
        assert_int_equal(parse_bool("on"), 1);
        assert_int_equal(parse_bool("1"), 1);
        assert_int_equal(parse_bool("true"), 1);
        assert_int_equal(parse_bool("no"), 0);
        assert_int_equal(parse_bool("off"), 0);
        assert_int_equal(parse_bool("0"), 0);
        assert_int_equal(parse_bool(""), -EINVAL);
        assert_int_equal(parse_bool("yess"), -EINVAL);
        assert_int_equal(parse_bool("2"), -EINVAL);
}

static void test_size(void **state) {
        uint64_t v = UNTOUCHED;

        assert_int_equal(parse_size("512", &v), 0);
        assert_int_equal(v, 512);
        assert_int_equal(parse_size("64K", &v), 0);
        assert_int_equal(v, 65536);
        assert_int_equal(parse_size("1.5G", &v), 0);
        assert_int_equal(v, UINT64_C(3) << 29);
        v = UNTOUCHED;
        assert_int_equal(parse_size("1.5", &v), -EINVAL);
        assert_int_equal(parse_size("1k", &v), -EINVAL);
        assert_int_equal(parse_size("K", &v), -EINVAL);
        assert_int_equal(parse_size("1KK", &v), -EINVAL);
        assert_int_equal(parse_size("99999999P", &v), -ERANGE);
        assert_int_equal(v, UNTOUCHED);
}

static void test_permyriad(void **state) {
        uint32_t v = 7;

        assert_int_equal(parse_permyriad("25%", 10000, &v), 0);
        assert_int_equal(v, 2500);
        assert_int_equal(parse_permyriad("12.5%", 10000, &v), 0);
        assert_int_equal(v, 1250);
        assert_int_equal(parse_permyriad("0.29%", 10000, &v), 0);
        assert_int_equal(v, 29);
        assert_int_equal(parse_permyriad("100%", 10000, &v), 0);
        assert_int_equal(v, 10000);
        assert_int_equal(parse_permyriad("101%", 10000, &v), -ERANGE);
        assert_int_equal(parse_permyriad("0.125%", 10000, &v), -EINVAL);
        assert_int_equal(parse_permyriad("25", 10000, &v), -EINVAL);
        assert_int_equal(parse_permyriad("25%%", 10000, &v), -EINVAL);
        assert_int_equal(parse_permyriad("-1%", 10000, &v), -EINVAL);
        assert_int_equal(v, 10000);
}

static void test_printable(void **state) {
        assert_true(string_is_printable(""));
        assert_true(string_is_printable("plain text, 100%"));
        assert_true(string_is_printable("gr\xc3\xbc\xc3\x9f"
                                        "e \xe2\x82\xac \xf0\x9f\x98\x80"));
        assert_false(string_is_printable("bell\a"));
        assert_false(string_is_printable("two\nlines"));
        assert_false(string_is_printable("\x1b[31mred"));
        assert_false(string_is_printable("delete\x7f"));
        assert_false(string_is_printable("c1 \xc2\x9b"
                                         "31m")); /* U+009B begins an escape sequence */
        assert_false(string_is_printable("latin1 \xe9"));
        assert_false(string_is_printable("overlong \xc0\xaf"));
        assert_false(string_is_printable("overlong \xe0\x80\xaf"));
        assert_false(string_is_printable("surrogate \xed\xa0\x80"));
        assert_false(string_is_printable("beyond \xf4\x90\x80\x80"));
        assert_false(string_is_printable("cut off \xe2\x82"));
}

static bool utf8_is_valid(const char *s, size_t n, size_t piece) {
        Utf8Check c = {};

        for (size_t i = 0; i < n; i += piece)
                (void) utf8_check(&c, s + i, MIN(piece, n - i));
        return utf8_check_is_complete(&c);
}

/* UTF-8 text may come in any pieces. */
static void test_utf8(void **state) {
#define TEXT(valid, s)                                                                                                 \
        { s, sizeof(s) - 1, valid }
        static const struct {
                const char *s;
                size_t n;
                bool valid;
        } texts[] = {
                        TEXT(true, ""),
                        TEXT(true, "letters\n\t\x7f"),
                        TEXT(true, "\xc2\x80 \xdf\xbf"),
                        TEXT(true, "\xe0\xa0\x80 \xed\x9f\xbf \xee\x80\x80 \xef\xbf\xbf"),
                        TEXT(true, "\xf0\x90\x80\x80 \xf4\x8f\xbf\xbf"),
                        TEXT(false, "a\0b"),
                        TEXT(false, "\x80"),
                        TEXT(false, "\xc1\xbf"),         /* overlong */
                        TEXT(false, "\xe0\x9f\xbf"),     /* overlong */
                        TEXT(false, "\xf0\x8f\xbf\xbf"), /* overlong */
                        TEXT(false, "\xed\xa0\x80"),     /* a surrogate */
                        TEXT(false, "\xf4\x90\x80\x80"), /* beyond U+10FFFF */
                        TEXT(false, "\xf5\x80\x80\x80"),
                        TEXT(false, "\xff"),
                        TEXT(false, "\xc3("),
                        TEXT(false, "\xe2\x82"), /* ends too early */
                        TEXT(false, "\xe2\x82("),
        };
#undef TEXT

        for (size_t i = 0; i < ELEMENTSOF(texts); i++)
                for (size_t piece = 1; piece <= 5; piece++)
                        assert_int_equal(utf8_is_valid(texts[i].s, texts[i].n, piece), texts[i].valid);
}

/* Each character, and each byte that begins none. */
static void test_utf8_characters(void **state) {
        static const struct {
                const char *s;
                int32_t c;
                size_t n;
                bool harmful;
        } characters[] = {
                        {"a", 'a', 1, false},
                        {"\x1b", 0x1b, 1, true},
                        {"\xc2\x9b", 0x9b, 2, true}, /* what starts an escape sequence, too */
                        {"\xc2\xa0", 0xa0, 2, false},
                        {"\xd8\x9c", 0x61c, 2, true},
                        {"\xe2\x80\xae", 0x202e, 3, true},
                        {"\xe2\x82\xac", 0x20ac, 3, false},
                        {"\xef\xbf\xbd", 0xfffd, 3, false},
                        {"\xef\xbf\xbf", 0xffff, 3, true},
                        {"\xf0\x9f\x98\x80", 0x1f600, 4, false},
                        {"\xf0\x9f\xbf\xbe", 0x1fffe, 4, true},
                        {"\xf3\xa0\x81\x81", 0xe0041, 4, true},
                        {"\xf4\x8f\xbf\xbd", 0x10fffd, 4, false},
                        {"\xe2\x82", -1, 1, true},
                        {"\xff", -1, 1, true},
        };

        for (size_t i = 0; i < ELEMENTSOF(characters); i++) {
                size_t n = 0;
                assert_int_equal(utf8_next(characters[i].s, &n), characters[i].c);
                assert_int_equal(n, characters[i].n);
                assert_int_equal(utf8_is_harmful(characters[i].c), characters[i].harmful);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_nsec),
                        cmocka_unit_test(test_nsec_refused),
                        cmocka_unit_test(test_format_nsec),
                        cmocka_unit_test(test_integers),
                        cmocka_unit_test(test_bool),
                        cmocka_unit_test(test_size),
                        cmocka_unit_test(test_permyriad),
                        cmocka_unit_test(test_printable),
                        cmocka_unit_test(test_utf8),
                        cmocka_unit_test(test_utf8_characters),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
