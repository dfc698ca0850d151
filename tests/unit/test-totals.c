/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Totals: entries, lasting entries, room, and other files
 */

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "service/core/totals.h"
#include "tests/lib/unit.h"

static Totals make(int fd) {
        Totals t;

        assert_int_equal(totals_new(fd, &t), 0);
        return t;
}

static void test_entries(void **state) {
        Totals t = make(-1);

        TotalsSlot *s = totals_get(&t, "train.service", true), *c = totals_get(&t, "/docker/1", false);
        assert_non_null(s);
        assert_non_null(c);
        assert_ptr_equal(totals_get(&t, "train.service", true), s);
        s->run_ns = 5;
        c->run_ns = 7;
        totals_leave(&t, s, 100);
        totals_leave(&t, c, 100);
        assert_int_equal(totals_get(&t, "train.service", true)->run_ns, 5);
        assert_int_equal(totals_get(&t, "/docker/1", false)->run_ns, 0);

        char longest[TOTALS_NAME_MAX], too_long[TOTALS_NAME_MAX + 1];
        memset(longest, 'a', sizeof(longest));
        longest[sizeof(longest) - 1] = '\0';
        memset(too_long, 'a', sizeof(too_long));
        too_long[sizeof(too_long) - 1] = '\0';
        assert_non_null(totals_get(&t, longest, true));
        assert_null(totals_get(&t, too_long, true));
        totals_done(&t);
}

/* With any number of entries, the oldest units that do not run are dropped; entries that do not last take none of the
 * units' places. */
static void test_room(void **state) {
        Totals t = make(-1);
        char name[64];

        for (unsigned i = 0; i < TOTALS_MAX; i++) {
                (void) snprintf(name, sizeof(name), "/user/%u", i);
                assert_int_equal(totals_get(&t, name, false) != NULL, i < TOTALS_MAX - TOTALS_LASTING_MAX);
        }
        for (unsigned i = 0; i < TOTALS_LASTING_MAX + 10; i++) {
                (void) snprintf(name, sizeof(name), "u%u.service", i);
                TotalsSlot *s = totals_get(&t, name, true);
                assert_non_null(s);
                s->run_ns = i + 1;
                if (i != 3)
                        totals_leave(&t, s, 1000 + i);
        }
        assert_int_equal(t.n_lasting, TOTALS_LASTING_MAX);
        assert_int_equal(totals_get(&t, "u3.service", true)->run_ns, 4);
        assert_int_equal(totals_get(&t, "u11.service", true)->run_ns, 12);
        assert_int_equal(totals_get(&t, "u0.service", true)->run_ns, 0);
        for (unsigned i = 0; i < TOTALS_LASTING_MAX + 10; i++) {
                (void) snprintf(name, sizeof(name), "x%u.service", i);
                (void) totals_get(&t, name, true);
        }
        assert_null(totals_get(&t, "one-more.service", true)); /* all entries are in use */
        assert_int_equal(totals_get(&t, "u3.service", true)->run_ns, 4);
        totals_done(&t);
}

static bool is_kept(const char *name, void *userdata) {
        return strcmp(name, userdata) == 0;
}

/* A killed service's counts are in the file, which the next service reads. */
static void test_file(void **state) {
        int fd = memfd_create("test-totals", MFD_CLOEXEC);
        char why[TOTALS_WHY_MAX], kept[] = "/a";

        assert_true(fd >= 0);
        Totals t = make(fd);
        TotalsSlot *s = totals_get(&t, "train.service", true);
        *s = (TotalsSlot){.name = "train.service",
                        .lasts = 1,
                        .used_s = TOTALS_IN_USE,
                        .run_ns = 5,
                        .below_ns = 6,
                        .kept_ns = 7,
                        .wait_ns = 8,
                        .drain_wait_ns = 9,
                        .service_wait_ns = 10,
                        .n_preempted = 11,
                        .source = ACCOUNT_SAMPLED};
        totals_get(&t, "/a", false)->run_ns = 12;
        totals_get(&t, "/b", false)->run_ns = 13;
        off_t size = lseek(fd, 0, SEEK_END);
        char *data = malloc((size_t) size);
        assert_int_equal(pread(fd, data, (size_t) size, 0), size);

        Totals next = make(-1);
        assert_int_equal(totals_load(&next, data, (size_t) size, 50, why), 0);
        totals_gc(&next, is_kept, kept);
        assert_int_equal(totals_get(&next, "/a", false)->run_ns, 12);
        assert_int_equal(totals_get(&next, "/b", false)->run_ns, 0);
        const TotalsSlot *n = totals_get(&next, "train.service", true);
        assert_memory_equal(n, s, sizeof(*n));

        /* Reads the file in place, which needs no room: invalid entries are free. */
        Totals there;
        totals_get(&t, "/c", false)->source = 1000;
        assert_int_equal(totals_adopt(fd, 50, &there), 0);
        assert_int_equal(there.n_lasting, 1);
        assert_int_equal(totals_get(&there, "/a", false)->run_ns, 12);
        assert_int_equal(totals_get(&there, "/b", false)->run_ns, 13);
        assert_int_equal(totals_get(&there, "/c", false)->source, 0);
        assert_int_equal(totals_get(&there, "train.service", true)->drain_wait_ns, 9);
        totals_get(&there, "/a", false)->run_ns++;
        assert_int_equal(s->run_ns, 5);
        assert_int_equal(totals_get(&t, "/a", false)->run_ns, 13); /* both use one file */
        totals_done(&there);
        assert_int_equal(ftruncate(fd, size - 1), 0);
        assert_int_equal(totals_adopt(fd, 50, &there), -EBADMSG);
        assert_int_equal(ftruncate(fd, size), 0);

        /* The copy has the unit, and nothing else. */
        char *copy;
        size_t copy_size;
        assert_int_equal(totals_print(&t, 60, &copy, &copy_size), 0);
        Totals after = make(-1);
        assert_int_equal(totals_load(&after, copy, copy_size, 70, why), 0);
        assert_int_equal(after.n_lasting, 1);
        assert_int_equal(totals_get(&after, "/a", false)->run_ns, 0);
        assert_int_equal(totals_get(&after, "train.service", true)->kept_ns, 7);

        /* A change of any byte is noticed. */
        for (size_t i = 0; i < copy_size; i++) {
                Totals bad = make(-1);
                copy[i] ^= 0x10;
                int r = totals_load(&bad, copy, copy_size, 70, why);
                copy[i] ^= 0x10;
                assert_int_equal(r, -EBADMSG);
                assert_int_equal(bad.n_lasting, 0);
                totals_done(&bad);
        }
        assert_int_equal(totals_load(&after, copy, copy_size - 1, 70, why), -EBADMSG);
        assert_int_equal(totals_load(&after, copy, 0, 70, why), -EBADMSG);
        free(copy);
        free(data);
        totals_done(&t);
        totals_done(&next);
        totals_done(&after);
        (void) close(fd);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_entries),
                        cmocka_unit_test(test_room),
                        cmocka_unit_test(test_file),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
