/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The record: no time is lost in it, and no client fills it
 */

#include <stdio.h>

#include "service/core/record.c" /* NOLINT(bugprone-suspicious-include): the test looks inside a Record */
#include "tests/lib/unit.h"

#define SEC UINT64_C(1000000)

#define MANY_USERS 40U

static void add(Record *r, const char *device, const char *group, uint64_t user, uint64_t run, uint64_t wait) {
        const uint64_t us[_RECORD_TIME_MAX] = {[RECORD_RUN] = run, [RECORD_WAIT] = wait};

        record_add(r, device, group, user, us);
}

typedef struct Frames {
        Record *r;
        RecordFrame **f;
        size_t n;
} Frames;

static Frames get(Record *r, uint64_t since) {
        Frames frames = {.r = r};

        assert_int_equal(record_get(r, since, &frames.f, &frames.n), 0);
        return frames;
}

static void frames_done(Frames *frames) {
        for (size_t i = 0; i < frames->n; i++)
                record_unref(frames->r, frames->f[i]);
        free(frames->f);
}

/* `group` NULL: the row of the others. */
static const RecordGroup *find(const RecordFrame *f, const char *device, const char *group) {
        for (unsigned i = 0; i < f->n_devices; i++) {
                const RecordDevice *d = f->devices + i;
                for (unsigned k = d->first; streq(d->name->text, device) && k < d->first + d->n; k++)
                        if (f->groups[k].name ? streq_ptr(group, f->groups[k].name->text) : !group)
                                return f->groups + k;
        }
        return NULL;
}

static uint64_t sum(const RecordFrame *f, RecordTime t) {
        uint64_t us = 0;

        for (unsigned i = 0; i < f->n_groups; i++)
                us += f->groups[i].us[t];
        return us;
}

static void test_frames(void **state) {
        const uint64_t use[_RECORD_USE_MAX] = {10, 20, 30};
        _cleanup_(record_freep)
        Record *r = record_new(SEC);

        add(r, "a", "/one", 0, 100, 7);
        add(r, "b", "/one", 0, 200, 0);
        add(r, "a", "/two", 1, 300, 0);
        add(r, "a", "/one", 0, 1, 0);
        record_add_device(r, "b", 0, use);
        record_end(r, 2 * SEC);

        _cleanup_(frames_done)
        Frames s = get(r, 0);
        assert_int_equal(s.n, 1);
        assert_int_equal(s.f[0]->begin_us, SEC);
        assert_int_equal(s.f[0]->end_us, 2 * SEC);
        assert_int_equal(s.f[0]->n_devices, 2);
        assert_int_equal(s.f[0]->n_groups, 3);
        assert_int_equal(find(s.f[0], "a", "/one")->us[RECORD_RUN], 101);
        assert_int_equal(find(s.f[0], "a", "/one")->us[RECORD_WAIT], 7);
        assert_int_equal(find(s.f[0], "a", "/two")->us[RECORD_RUN], 300);
        assert_int_equal(find(s.f[0], "b", "/one")->us[RECORD_RUN], 200);
        assert_null(find(s.f[0], "b", NULL));
        assert_string_equal(s.f[0]->devices[1].name->text, "b");
        assert_memory_equal(s.f[0]->devices[1].us, use, sizeof(use));
}

/* A pause makes no frame, and the next frame begins after it. */
static void test_nothing(void **state) {
        _cleanup_(record_freep)
        Record *r = record_new(SEC);

        record_end(r, 2 * SEC);
        add(r, "a", "/one", 0, 0, 0);
        record_end(r, 3 * SEC);
        assert_int_equal(r->n, 0);
        assert_int_equal(HASH_COUNT(r->names), 0);
        add(r, "a", "/one", 0, 1, 0);
        record_end(r, 4 * SEC);

        _cleanup_(frames_done)
        Frames s = get(r, 0);
        assert_int_equal(s.n, 1);
        assert_int_equal(s.f[0]->begin_us, 3 * SEC);
}

static void test_since(void **state) {
        _cleanup_(record_freep)
        Record *r = record_new(0);

        for (uint64_t t = 1; t <= 10; t++) {
                add(r, "a", "/one", 0, t, 0);
                record_end(r, t * SEC);
        }
        const struct {
                uint64_t since;
                size_t n;
        } cases[] = {{0, 10}, {SEC, 9}, {SEC + 1, 9}, {9 * SEC, 1}, {10 * SEC, 0}, {UINT64_MAX, 0}};
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(frames_done)
                Frames s = get(r, cases[i].since);
                assert_int_equal(s.n, cases[i].n);
        }
}

/* The ring wraps, and frames that are too old are dropped. */
static void test_wrap(void **state) {
        _cleanup_(record_freep)
        Record *r = record_new(0);
        uint64_t now = 0;

        for (unsigned i = 0; i < 3 * RECORD_FRAMES_MAX; i++) {
                char name[16];
                snprintf(name, sizeof(name), "/%u", i);
                add(r, "a", name, i, i + 1, 0);
                record_end(r, now += SEC);
                assert_in_range(r->n, 1, RECORD_FRAMES_MAX);
        }
        assert_int_equal(r->n, RECORD_FRAMES_MAX);
        assert_int_equal(HASH_COUNT(r->names), RECORD_FRAMES_MAX + 1);
        {
                _cleanup_(frames_done)
                Frames s = get(r, 0);
                for (size_t i = 0; i < s.n; i++)
                        assert_int_equal(sum(s.f[i], RECORD_RUN), 2 * (size_t) RECORD_FRAMES_MAX + i + 1);
                assert_int_equal(s.f[s.n - 1]->end_us, now);
        }
        add(r, "a", "/last", 0, 1, 0);
        record_end(r, now + RECORD_SPAN_US + 1);
        assert_int_equal(r->n, 1);
        assert_int_equal(HASH_COUNT(r->names), 2);
}

/* A frame that is being read stays as it is, whatever comes after it. */
static void test_held(void **state) {
        _cleanup_(record_freep)
        Record *r = record_new(0);

        add(r, "a", "/first", 0, 42, 0);
        record_end(r, SEC);
        {
                _cleanup_(frames_done)
                Frames s = get(r, 0);
                record_end(r, 2 * SEC + RECORD_SPAN_US);
                assert_int_equal(r->n, 0);
                assert_int_equal(find(s.f[0], "a", "/first")->us[RECORD_RUN], 42);
        }
        assert_int_equal(HASH_COUNT(r->names), 0);
}

static void test_clock(void **state) {
        _cleanup_(record_freep)
        Record *r = record_new(10 * SEC);

        add(r, "a", "/one", 0, 1, 0);
        record_end(r, 10 * SEC);
        record_end(r, 3 * SEC);
        assert_int_equal(r->n, 0);
        assert_int_equal(record_begin_us(r), 10 * SEC);
        add(r, "a", "/one", 0, 2, 0);
        record_end(r, 11 * SEC);
        {
                _cleanup_(frames_done)
                Frames s = get(r, 0);
                assert_int_equal(s.n, 1);
                assert_int_equal(sum(s.f[0], RECORD_RUN), 3);
        }
        /* A machine that was stopped for a day: one long frame, and the others are old. */
        add(r, "a", "/one", 0, 4, 0);
        record_end(r, 11 * SEC + 86400 * SEC);
        _cleanup_(frames_done)
        Frames s = get(r, 0);
        assert_int_equal(s.n, 1);
        assert_int_equal(sum(s.f[0], RECORD_RUN), 4);
}

/* A user with thousands of groups counts as one of two users, and the sums are complete. */
static void test_many_groups(void **state) {
        _cleanup_(record_freep)
        Record *r = record_new(0);
        uint64_t run = 0;

        for (unsigned i = 0; i < 5000; i++) {
                char name[32];
                snprintf(name, sizeof(name), "/hostile-%u", i);
                add(r, "a", name, 1000, 1000 + i, 10);
                run += 1000 + i;
        }
        for (unsigned i = 0; i < 5; i++) {
                char name[32];
                snprintf(name, sizeof(name), "/small-%u", i);
                add(r, "a", name, 0, 1, 1);
        }
        record_end(r, SEC);

        _cleanup_(frames_done)
        Frames s = get(r, 0);
        assert_int_equal(s.n, 1);
        assert_in_range(s.f[0]->n_groups, 6, RECORD_GROUPS_MAX + 1);
        for (unsigned i = 0; i < 5; i++) {
                char name[32];
                snprintf(name, sizeof(name), "/small-%u", i);
                assert_non_null(find(s.f[0], "a", name));
        }
        assert_non_null(find(s.f[0], "a", NULL));
        assert_int_equal(sum(s.f[0], RECORD_RUN), run + 5);
        assert_int_equal(sum(s.f[0], RECORD_WAIT), 50005);
        assert_in_range(HASH_COUNT(r->names), 6, RECORD_GROUPS_MAX + 1);
}

/* Each user has the longest group named before any user has a second one named. */
static void test_users_take_turns(void **state) {
        _cleanup_(record_freep)
        Record *r = record_new(0);

        for (unsigned u = 0; u < MANY_USERS; u++)
                for (unsigned i = 0; i < 10; i++) {
                        char name[32];
                        snprintf(name, sizeof(name), "/%u/%u", u, i);
                        add(r, i % 2 ? "a" : "b", name, u, u == 0 ? 1000000 + i : i + 1, 0);
                }
        record_end(r, SEC);

        _cleanup_(frames_done)
        Frames s = get(r, 0);
        for (unsigned u = 0; u < MANY_USERS; u++) {
                char name[32];
                snprintf(name, sizeof(name), "/%u/9", u);
                assert_non_null(find(s.f[0], "a", name));
        }
        unsigned n = 0;
        for (unsigned i = 0; i < s.f[0]->n_groups; i++)
                n += s.f[0]->groups[i].name && startswith(s.f[0]->groups[i].name->text, "/0/") != NULL;
        assert_in_range(n, 2, RECORD_GROUPS_MAX - MANY_USERS + 1);
}

/* Groups come and go: their names are kept as long as their frames, and a user's names are bounded. */
static void test_names(void **state) {
        _cleanup_(record_freep)
        Record *r = record_new(0);
        uint64_t now = 0;

        for (unsigned frame = 0; frame < 2 * RECORD_FRAMES_MAX; frame++) {
                for (unsigned i = 0; i < 50; i++) {
                        char name[48];
                        snprintf(name, sizeof(name), "/churn/%u", frame * 50 + i);
                        add(r, "a", name, 1000, 1, 0);
                }
                add(r, "a", "/steady", 1001, 1, 0);
                record_end(r, now += SEC);
                assert_in_range(HASH_COUNT(r->names), 1, RECORD_USER_NAMES_MAX + 2);
        }
        _cleanup_(frames_done)
        Frames s = get(r, 0);
        assert_int_equal(s.n, RECORD_FRAMES_MAX);
        for (size_t i = 0; i < s.n; i++) {
                assert_int_equal(sum(s.f[i], RECORD_RUN), 51);
                assert_non_null(find(s.f[i], "a", "/steady"));
        }
}

static void test_long_names(void **state) {
        _cleanup_(record_freep)
        Record *r = record_new(0);
        char name[2 * RECORD_NAME_LEN_MAX];

        for (size_t length = RECORD_NAME_LEN_MAX - 1; length < RECORD_NAME_LEN_MAX + 3; length++) {
                memset(name, 'x', length);
                name[length] = '\0';
                add(r, "a", name, 0, 1, 0);
        }
        memset(name, 'y', sizeof(name) - 1);
        name[sizeof(name) - 1] = '\0';
        add(r, name, "/one", 0, 1, 0); /* no device has such a name */
        add(r, "a", "", 0, 1, 0);
        record_end(r, SEC);

        _cleanup_(frames_done)
        Frames s = get(r, 0);
        assert_int_equal(s.f[0]->n_devices, 1);
        assert_int_equal(s.f[0]->n_groups, 3);
        assert_int_equal(find(s.f[0], "a", NULL)->us[RECORD_RUN], 3);
}

static void test_many_devices(void **state) {
        const uint64_t use[_RECORD_USE_MAX] = {1, 0, 0}, much[_RECORD_USE_MAX] = {1000, 0, 0};
        _cleanup_(record_freep)
        Record *r = record_new(0);
        bool seen = false;

        for (unsigned i = 0; i < 3 * RECORD_DEVICES_MAX; i++) {
                char name[32];
                snprintf(name, sizeof(name), "invented-%u", i);
                record_add_device(r, name, 1000, much);
                add(r, name, "/g", 1000, 1000, 0);
        }
        record_add_device(r, "gpu", 0, use);
        add(r, "gpu", "/g", 0, 1, 0);
        for (unsigned i = 0; i < 10 * RECORD_DEVICES_MAX; i++) {
                char name[32];
                snprintf(name, sizeof(name), "later-%u", i);
                record_add_device(r, name, 1000, much);
        }
        record_end(r, SEC);

        _cleanup_(frames_done)
        Frames s = get(r, 0);
        assert_int_equal(s.f[0]->n_devices, RECORD_DEVICES_MAX);
        for (unsigned i = 0; i < s.f[0]->n_devices; i++)
                seen = seen || streq(s.f[0]->devices[i].name->text, "gpu");
        assert_true(seen);
        assert_non_null(find(s.f[0], "gpu", "/g"));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_frames),
                        cmocka_unit_test(test_nothing),
                        cmocka_unit_test(test_since),
                        cmocka_unit_test(test_wrap),
                        cmocka_unit_test(test_held),
                        cmocka_unit_test(test_clock),
                        cmocka_unit_test(test_many_groups),
                        cmocka_unit_test(test_users_take_turns),
                        cmocka_unit_test(test_names),
                        cmocka_unit_test(test_long_names),
                        cmocka_unit_test(test_many_devices),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
