/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * D-Bus messages: a written message is read back the same, by our reader and by libsystemd, and a broken message is
 * refused
 */

#include <byteswap.h>
#include <systemd/sd-bus.h>

#include "common/macro.h"
#include "shim/dbus/dbus-message.h"
#include "tests/lib/unit.h"

static void begin(DbusWriter *w, const char *signature) {
        dbus_writer_begin(w,
                        &(DbusHeader){
                                        .type = DBUS_METHOD_CALL,
                                        .flags = DBUS_NO_AUTO_START,
                                        .destination = "a.b",
                                        .path = "/a",
                                        .interface = "a.b.C",
                                        .member = "D",
                                        .signature = signature,
                        });
}

/* Makes a message that owns a copy of its bytes, as a received one does. */
static DbusMessage *received(const DbusWriter *w) {
        uint8_t *data = malloc(w->size);
        DbusMessage *m = NULL;

        assert_non_null(data);
        memcpy(data, w->data, w->size);
        assert_int_equal(dbus_message_new(data, w->size, NULL, 0, &m), 0);
        return m;
}

static void write_all(DbusWriter *w) {
        begin(w, "ta{sv}asaay");
        dbus_write_u64(w, UINT64_C(0x123456789abcdef));
        size_t entries = dbus_begin_array(w, DBUS_ALIGN_8);
        dbus_write_struct(w);
        dbus_write_string(w, "Klasse");
        dbus_write_signature(w, "s");
        dbus_write_string(w, "größer");
        dbus_write_struct(w);
        dbus_write_string(w, "N");
        dbus_write_signature(w, "u");
        dbus_write_u32(w, 7);
        dbus_end_array(w, entries, DBUS_ALIGN_8);
        size_t strings = dbus_begin_array(w, DBUS_ALIGN_4);
        dbus_end_array(w, strings, DBUS_ALIGN_4);
        size_t bytes = dbus_begin_array(w, DBUS_ALIGN_4);
        dbus_write_string(w, "abc"); /* a string is written as an array of bytes with a zero behind it */
        dbus_end_array(w, bytes, DBUS_ALIGN_4);
        assert_int_equal(dbus_writer_seal(w, 5), 0);
}

static void read_all(const DbusMessage *m) {
        DbusReader r;
        size_t n, end;

        assert_true(dbus_message_read(m, "ta{sv}asaay", &r));
        assert_true(dbus_read_u64(&r) == UINT64_C(0x123456789abcdef));
        end = dbus_read_array(&r, DBUS_ALIGN_8);
        assert_true(dbus_read_more(&r, end));
        dbus_read_struct(&r);
        assert_string_equal(dbus_read_string(&r), "Klasse");
        dbus_read_variant(&r, "s");
        assert_string_equal(dbus_read_string(&r), "größer");
        dbus_read_struct(&r);
        assert_string_equal(dbus_read_string(&r), "N");
        dbus_read_variant(&r, "u");
        assert_int_equal(dbus_read_u32(&r), 7);
        assert_false(dbus_read_more(&r, end));
        end = dbus_read_array(&r, DBUS_ALIGN_4);
        assert_false(dbus_read_more(&r, end));
        end = dbus_read_array(&r, DBUS_ALIGN_4);
        assert_true(dbus_read_more(&r, end));
        const uint8_t *s = dbus_read_bytes(&r, &n);
        assert_int_equal(n, 3);
        assert_memory_equal(s, "abc", 3);
        assert_false(r.bad);
}

static void test_round_trip(void **state) {
        _cleanup_(dbus_writer_done)
        DbusWriter w = DBUS_WRITER_NULL;
        write_all(&w);
        DbusMessage *m = received(&w);

        assert_int_equal(m->type, DBUS_METHOD_CALL);
        assert_int_equal(m->flags, DBUS_NO_AUTO_START);
        assert_int_equal(m->serial, 5);
        assert_string_equal(m->path, "/a");
        assert_string_equal(m->interface, "a.b.C");
        assert_string_equal(m->member, "D");
        assert_string_equal(m->error, "");
        read_all(m);
        (void) dbus_message_free(m);
}

/* A wrong signature, or a wrong type of a variant: nothing is read. */
static void test_other_than_told(void **state) {
        _cleanup_(dbus_writer_done)
        DbusWriter w = DBUS_WRITER_NULL;
        DbusReader r;

        begin(&w, "v");
        dbus_write_signature(&w, "u");
        dbus_write_u32(&w, 7);
        assert_int_equal(dbus_writer_seal(&w, 1), 0);
        DbusMessage *m = received(&w);
        assert_false(dbus_message_read(m, "s", &r));
        assert_string_equal(dbus_read_string(&r), "");
        assert_int_equal(dbus_read_fd(&r), -EBADF);
        assert_true(dbus_message_read(m, "v", &r));
        dbus_read_variant(&r, "i");
        assert_true(r.bad);
        assert_int_equal(dbus_read_u32(&r), 0);
        (void) dbus_message_free(m);
}

/* A message as a machine of the other byte order writes it. */
static void test_foreign_order(void **state) {
        _cleanup_(dbus_writer_done)
        DbusWriter w = DBUS_WRITER_NULL;
        DbusReader r;

        dbus_writer_begin(&w, &(DbusHeader){.type = DBUS_METHOD_RETURN, .signature = "ut"});
        dbus_write_u32(&w, 0x01020304);
        dbus_write_u64(&w, 9);
        assert_int_equal(dbus_writer_seal(&w, 1), 0);
        for (size_t at = 4; at < 16; at += 4) {
                uint32_t v;
                memcpy(&v, w.data + at, sizeof(v));
                v = bswap_32(v);
                memcpy(w.data + at, &v, sizeof(v));
        }
        w.data[0] = w.data[0] == 'l' ? 'B' : 'l';
        DbusMessage *m = received(&w);
        assert_true(dbus_message_read(m, "ut", &r));
        assert_int_equal(dbus_read_u32(&r), bswap_32(0x01020304));
        assert_true(dbus_read_u64(&r) == bswap_64(9));
        assert_int_equal(m->serial, 1);
        (void) dbus_message_free(m);
}

/* A message cut at each place, and with each byte wrong in turn, is refused or read. The sanitizers find accesses out
 * of bounds. */
static void test_broken(void **state) {
        _cleanup_(dbus_writer_done)
        DbusWriter w = DBUS_WRITER_NULL;
        unsigned n_refused = 0;

        write_all(&w);
        for (size_t i = 0; i < w.size; i++) {
                uint8_t *data = malloc(w.size);
                DbusMessage *m = NULL;
                size_t size;

                assert_non_null(data);
                memcpy(data, w.data, w.size);
                assert_int_equal(dbus_message_new(data, i, NULL, 0, &m), -EBADMSG);
                data[i] ^= 0xff;
                if (dbus_message_size(data, &size) < 0 || dbus_message_new(data, w.size, NULL, 0, &m) < 0) {
                        n_refused++;
                        free(data);
                        continue;
                }
                DbusReader r;
                if (dbus_message_read(m, "ta{sv}asaay", &r)) {
                        (void) dbus_read_u64(&r);
                        for (size_t end = dbus_read_array(&r, DBUS_ALIGN_8); dbus_read_more(&r, end);) {
                                dbus_read_struct(&r);
                                (void) dbus_read_string(&r);
                        }
                }
                (void) dbus_message_free(m);
        }
        assert_true(n_refused > 20);
}

static void test_strings(void **state) {
        static const char *const bad[] = {
                        "\x80",
                        "a\xc3",
                        "\xc0\xaf",
                        "\xe0\x80\x80",
                        "\xed\xa0\x80",
                        "\xf4\x90\x80\x80",
                        "\xff",
                        "\xf0\x9f\x92",
        };
        static const char *const good[] = {"", "a", "\xc3\xb6", "\xe2\x82\xac", "\xf0\x9f\x92\xa9", "\xf4\x8f\xbf\xbf"};

        for (size_t i = 0; i < ELEMENTSOF(good); i++)
                assert_true(dbus_is_text(good[i]));
        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                _cleanup_(dbus_writer_done)
                DbusWriter w = DBUS_WRITER_NULL;

                assert_false(dbus_is_text(bad[i]));
                begin(&w, "s");
                dbus_write_string(&w, bad[i]);
                dbus_write_string(&w, "more");
                assert_int_equal(dbus_writer_seal(&w, 1), -EINVAL);
        }
}

static void test_too_long(void **state) {
        _cleanup_(dbus_writer_done)
        DbusWriter w = DBUS_WRITER_NULL;
        _cleanup_free_ char *s = malloc(DBUS_MESSAGE_MAX);

        assert_non_null(s);
        memset(s, 'x', DBUS_MESSAGE_MAX - 1);
        s[DBUS_MESSAGE_MAX - 1] = '\0';
        begin(&w, "s");
        dbus_write_string(&w, s);
        assert_int_equal(dbus_writer_seal(&w, 1), -EMSGSIZE);

        uint8_t prefix[DBUS_PREFIX_SIZE] = {'l', 1, 0, 1, [7] = 0x80};
        size_t size;
        assert_int_equal(dbus_message_size(prefix, &size), -EMSGSIZE);
        prefix[7] = 0;
        prefix[15] = 0x80;
        assert_int_equal(dbus_message_size(prefix, &size), -EMSGSIZE);
        prefix[15] = 0;
        prefix[0] = 'x';
        assert_int_equal(dbus_message_size(prefix, &size), -EBADMSG);
}

static void test_path(void **state) {
        static const char *const names[] = {
                        "a.service", "", "0a", "a0", "_", "user@1000.service", "\xc3\xb6-x_y\\x2d.slice"};

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                _cleanup_free_ char *ours = NULL, *theirs = NULL;

                assert_int_equal(dbus_path_encode("/org/a", names[i], &ours), 0);
                assert_true(sd_bus_path_encode("/org/a", names[i], &theirs) >= 0);
                assert_string_equal(ours, theirs);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_round_trip),
                        cmocka_unit_test(test_other_than_told),
                        cmocka_unit_test(test_foreign_order),
                        cmocka_unit_test(test_broken),
                        cmocka_unit_test(test_strings),
                        cmocka_unit_test(test_too_long),
                        cmocka_unit_test(test_path),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
