/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The ledger in a memfd: a reader gets the written lines, whenever the writer is killed
 */

#include <sys/mman.h>
#include <sys/stat.h>

#include "service/base/ledger.h"
#include "service/settings/json-util.h"
#include "tests/lib/unit.h"

typedef struct Seen {
        int64_t values[64];
        size_t n;
} Seen;

static int see(json_object *record, void *userdata) {
        Seen *s = userdata;

        assert_in_range(s->n, 0, ELEMENTSOF(s->values) - 1);
        s->values[s->n++] = json_get_int(record, "n");
        return 0;
}

static void append(Ledger *j, int n) {
        json_object *o = json_object_new_object();

        assert_int_equal(json_add_int(o, "n", n), 0);
        assert_int_equal(ledger_append(j, o), 0);
        json_object_put(o);
}

/* Reads the ledger as the next process would. */
static Seen read_back(const Ledger *j) {
        Seen s = {0};
        Ledger other;

        int fd = dup(j->fd);
        assert_true(fd >= 0);
        assert_int_equal(ledger_open(fd, &other), 0);
        assert_int_equal(ledger_read(&other, see, &s), 0);
        ledger_done(&other);
        return s;
}

static void test_append(void **state) {
        Ledger j;

        assert_int_equal(ledger_new("test", &j), 0);
        assert_int_equal(read_back(&j).n, 0);
        append(&j, 1);
        append(&j, 2);
        Seen s = read_back(&j);
        assert_int_equal(s.n, 2);
        assert_int_equal(s.values[0], 1);
        assert_int_equal(s.values[1], 2);
        ledger_done(&j);
}

/* The former state holds up to the commit; a rewrite that is given up leaves no trace. */
static void test_rewrite(void **state) {
        Ledger j;

        assert_int_equal(ledger_new("test", &j), 0);
        append(&j, 1);
        append(&j, 2);
        ledger_begin(&j);
        append(&j, 3);
        Seen s = read_back(&j);
        assert_int_equal(s.n, 2);
        assert_int_equal(s.values[1], 2);

        ledger_abort(&j);
        append(&j, 4);
        s = read_back(&j);
        assert_int_equal(s.n, 3);
        assert_int_equal(s.values[2], 4);

        ledger_begin(&j);
        append(&j, 5);
        assert_int_equal(ledger_commit(&j), 0);
        s = read_back(&j);
        assert_int_equal(s.n, 1);
        assert_int_equal(s.values[0], 5);
        append(&j, 6);
        s = read_back(&j);
        assert_int_equal(s.n, 2);
        assert_int_equal(s.values[1], 6);
        ledger_done(&j);
}

/* However often it is rewritten, it holds little more memory than its valid lines need. */
static void test_memory_is_given_back(void **state) {
        Ledger j;
        struct stat st;

        assert_int_equal(ledger_new("test", &j), 0);
        for (int i = 0; i < 20000; i++) {
                append(&j, i);
                if (!ledger_is_bloated(&j))
                        continue;
                ledger_begin(&j);
                append(&j, i);
                assert_int_equal(ledger_commit(&j), 0);
        }
        assert_int_equal(fstat(j.fd, &st), 0);
        assert_true(st.st_size > 200L * 1024);
        assert_in_range(st.st_blocks * 512, 1, 100UL * 1024);
        ledger_done(&j);
}

static void test_foreign_files(void **state) {
        static const uint64_t bad[][2] = {{0, 0}, {16, 8}, {16, 1000}, {UINT64_MAX, UINT64_MAX}, {8, 16}};
        Ledger j;

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                int fd = memfd_create("test", MFD_CLOEXEC);
                assert_int_equal(write(fd, bad[i], sizeof(bad[i])), sizeof(bad[i]));
                assert_int_equal(ledger_open(fd, &j), -EBADMSG);
                close(fd);
        }
        int fd = memfd_create("test", MFD_CLOEXEC);
        assert_int_equal(ledger_open(fd, &j), -EBADMSG);
        close(fd);
}

/* A line that is no JSON, and one that has no end. */
static void test_garbage_lines(void **state) {
        static const char text[] = "{\"n\":1}\nnonsense\n{\"n\":2}\n{\"n\":3}";
        const uint64_t header[2] = {16, 16 + sizeof(text) - 1};
        Seen s = {0};
        Ledger j;

        int fd = memfd_create("test", MFD_CLOEXEC);
        assert_int_equal(write(fd, header, sizeof(header)), sizeof(header));
        assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
        assert_int_equal(ledger_open(fd, &j), 0);
        assert_int_equal(ledger_read(&j, see, &s), 0);
        assert_int_equal(s.n, 2);
        assert_int_equal(s.values[1], 2);
        ledger_done(&j);
}

static void test_settings(void **state) {
        _cleanup_json_ json_object *o = json_object_new_object();
        Settings s = SETTINGS_NULL, back;

        assert_int_equal(settings_set_priority(&s, -7), 0);
        assert_int_equal(settings_set_class(&s, "batch"), 0);
        assert_int_equal(json_add_settings(o, "a", &s), 0);
        json_get_settings(o, "a", &back);
        assert_memory_equal(&s, &back, sizeof(s));
        json_get_settings(o, "b", &back);
        assert_true(settings_is_empty(&back));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_append),
                        cmocka_unit_test(test_rewrite),
                        cmocka_unit_test(test_memory_is_given_back),
                        cmocka_unit_test(test_foreign_files),
                        cmocka_unit_test(test_garbage_lines),
                        cmocka_unit_test(test_settings),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
