/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Stored settings: set values are restored, whatever happened to the file, and a change that cannot be written is not
 * made
 */

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "service/base/state-file.h"
#include "service/settings/overrides.h"
#include "tests/lib/unit.h"

static char directory[] = "/tmp/test-stored.XXXXXX";
static char why[OVERRIDES_WHY_MAX];

static void path_of(char *buf, size_t size, const char *name) {
        assert_true(snprintf(buf, size, "%s/%s", directory, name) < (int) size);
}

static bool there_is(const char *name) {
        char path[256];

        path_of(path, sizeof(path), name);
        return access(path, F_OK) == 0;
}

static void take_away(const char *name) {
        char path[256];

        path_of(path, sizeof(path), name);
        assert_true(unlink(path) == 0 || rmdir(path) == 0 || errno == ENOENT);
}

static int setup(void **state) {
        take_away(OVERRIDES_FILE);
        take_away(OVERRIDES_FILE ".bad");
        take_away("." OVERRIDES_FILE ".tmp");
        return 0;
}

static void put(const char *text, size_t size) {
        char path[256];

        path_of(path, sizeof(path), OVERRIDES_FILE);
        FILE *f = fopen(path, "we");
        assert_non_null(f);
        assert_int_equal(fwrite(text, 1, size, f), size);
        assert_int_equal(fclose(f), 0);
}

static Settings make(const char *key, const char *value) {
        Settings s = SETTINGS_NULL;
        assert_int_equal(settings_set_string(&s, key, value), 0);
        return s;
}

static Overrides reopen(Overrides *s, int expected) {
        Overrides again = OVERRIDES_NULL;

        if (s)
                overrides_done(s);
        assert_int_equal(overrides_open(directory, &again, why), expected);
        return again;
}

static int priority_of(const Overrides *s, const char *name) {
        const Settings *found = overrides_find(s, name);

        assert_non_null(found);
        assert_true(settings_has(found, SETTINGS_PRIORITY));
        return found->priority;
}

static void test_kept(void **state) {
        Overrides s = reopen(NULL, 0);
        Settings all = make("Priority", "-7"), other = make("Class", "batch");
        const Settings none = SETTINGS_NULL;

        assert_false(there_is(OVERRIDES_FILE));
        assert_int_equal(settings_set_weight(&all, 33), 0);
        assert_int_equal(settings_set_threshold(&all, 4), 0);
        assert_int_equal(settings_set_class(&all, "idle"), 0);
        assert_int_equal(settings_set_preemption(&all, "off"), 0);
        assert_int_equal(settings_set_gang(&all, true), 0);
        assert_int_equal(overrides_set(&s, "train.service", &all), 0);
        assert_int_equal(overrides_set(&s, "/user.slice/a b\"\\/x", &other), 0);
        assert_false(there_is("." OVERRIDES_FILE ".tmp"));

        s = reopen(&s, 0);
        assert_string_equal(why, "");
        assert_memory_equal(overrides_find(&s, "train.service"), &all, sizeof(all));
        assert_string_equal(overrides_find(&s, "/user.slice/a b\"\\/x")->class, "batch");
        assert_null(overrides_find(&s, "train"));
        assert_null(overrides_find(&s, NULL));

        /* A unit's settings are replaced as a whole, and removed. */
        other = make("Priority", "3");
        assert_int_equal(overrides_set(&s, "train.service", &other), 0);
        assert_int_equal(overrides_set(&s, "/user.slice/a b\"\\/x", &none), 0);
        assert_int_equal(overrides_set(&s, "was.never", &none), 0);
        s = reopen(&s, 0);
        assert_int_equal(priority_of(&s, "train.service"), 3);
        assert_int_equal(overrides_find(&s, "train.service")->mask, 1U << SETTINGS_PRIORITY);
        assert_int_equal(HASH_COUNT(s.entries), 1);
        overrides_done(&s);
}

/* Times are written in microseconds. A span that was written by hand has its unit. */
static void test_times_are_kept(void **state) {
        static const char *const times[][2] = {{"Deadline", "5ms"}, {"Laxity", "20ms"}, {"Period", "2s"}};
        static const char by_hand[] = "{\"version\": 1, \"overrides\": [{\"name\": \"a.service\", "
                                      "\"settings\": {\"Deadline\": \"3ms\", \"Laxity\": 7}}]}";
        Overrides s = reopen(NULL, 0);
        Settings all = SETTINGS_NULL;

        for (size_t i = 0; i < ELEMENTSOF(times); i++)
                assert_int_equal(settings_set_string(&all, times[i][0], times[i][1]), 0);
        assert_int_equal(overrides_set(&s, "train.service", &all), 0);
        s = reopen(&s, 0);
        assert_string_equal(why, "");
        assert_memory_equal(overrides_find(&s, "train.service"), &all, sizeof(all));

        put(by_hand, strlen(by_hand));
        s = reopen(&s, 0);
        assert_int_equal(overrides_find(&s, "a.service")->deadline_us, 3000);
        assert_int_equal(overrides_find(&s, "a.service")->laxity_us, 7);
        overrides_done(&s);
}

/* The file is read again, whatever its boot id is. */
static void test_no_boot_id(void **state) {
        static const char text[] = "{\"version\": 1, \"overrides\": [{\"name\": \"/a\", \"boot\": "
                                   "\"---------1---------2---------3-----\u00e4\", \"cgroup\": 5, "
                                   "\"settings\": {\"Priority\": 5}}]}";
        Settings other = make("Priority", "3");

        put(text, strlen(text));
        Overrides s = reopen(NULL, 0);
        assert_int_equal(priority_of(&s, "/a"), 5);
        assert_int_equal(overrides_set(&s, "b.service", &other), 0);
        s = reopen(&s, 0);
        assert_string_equal(why, "");
        assert_int_equal(priority_of(&s, "/a"), 5);
        overrides_done(&s);
}

static void test_names(void **state) {
        static const char *const table[][2] = {
                        {"/system.slice/train.service", "train.service"},
                        {"/", "-.slice"},
                        {"/gpu.slice", "gpu.slice"},
                        {"train.service", "train.service"},
                        {"/system.slice/train.service/worker", "/system.slice/train.service/worker"},
                        {"/user.slice/user-1.slice/user@1.service/app.slice/a.service",
                                        "/user.slice/user-1.slice/user@1.service/app.slice/a.service"},
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                _cleanup_free_ char *name = NULL;
                assert_int_equal(overrides_name(table[i][0], &name), 0);
                assert_string_equal(name, table[i][1]);
        }
        assert_true(overrides_name_is_valid("/"));
        assert_true(overrides_name_is_valid("a.service"));
        assert_false(overrides_name_is_valid(""));
        assert_false(overrides_name_is_valid("a"));
        assert_false(overrides_name_is_valid("/a/"));
        assert_false(overrides_name_is_valid("//"));
        assert_false(overrides_name_is_valid("/a//b"));
        assert_false(overrides_name_is_valid("/.."));
        assert_false(overrides_name_is_valid("/../.."));
        assert_false(overrides_name_is_valid("/a/../b.service"));
        assert_false(overrides_name_is_valid("/a/./b.service"));
        assert_false(overrides_name_is_valid("/a/b.service/.."));
        assert_true(overrides_name_is_valid("/a/..b/.c/...")); /* ordinary names, though they have dots */
        assert_false(overrides_name_is_valid(".."));
        assert_false(overrides_name_is_valid("."));
        assert_false(overrides_name_is_valid("a.b/c"));
        assert_false(overrides_name_is_valid("job:1:x.y"));
        assert_false(overrides_name_is_valid("a.\nb"));
}

/* A file cut off at any place: the service reports it, keeps it aside, and has a working file. */
static void test_truncated(void **state) {
        Overrides s = reopen(NULL, 0);
        const Settings one = make("Priority", "-7"), two = make("Weight", "7");
        _cleanup_free_ char *text = NULL;
        size_t size;

        assert_int_equal(overrides_set(&s, "one.service", &one), 0);
        assert_int_equal(overrides_set(&s, "two.service", &two), 0);
        assert_int_equal(overrides_print(&s, &text, &size), 0);
        overrides_done(&s);

        for (size_t n = 0; n < size - 2; n++) { /* but for the brace and the newline at its end */
                put(text, n);
                s = reopen(NULL, 1);
                assert_non_null(strstr(why, directory));
                assert_non_null(strstr(why, OVERRIDES_FILE ": "));
                assert_non_null(strstr(why, "kept as " OVERRIDES_FILE ".bad"));
                assert_true(there_is(OVERRIDES_FILE ".bad"));
                assert_int_equal(HASH_COUNT(s.entries), 0);
                assert_int_equal(overrides_set(&s, "new.service", &one), 0);
                s = reopen(&s, 0);
                assert_int_equal(priority_of(&s, "new.service"), -7);
                overrides_done(&s);
        }
}

static void check_bad(const char *text, size_t size, const char *says) {
        put(text, size);
        Overrides s = reopen(NULL, 1);
        if (!strstr(why, says))
                fail_msg("'%s' instead of '%s'", why, says);
        assert_true(there_is(OVERRIDES_FILE ".bad"));
        assert_int_equal(HASH_COUNT(s.entries), 0);
        overrides_done(&s);
        take_away(OVERRIDES_FILE ".bad");
}

static void test_garbage(void **state) {
        char noise[4096];
        uint32_t x = 1;

        for (size_t i = 0; i < sizeof(noise); i++)
                noise[i] = (char) ((x = x * 1664525 + 1013904223) >> 24);
        check_bad(noise, sizeof(noise), "zero bytes");
        check_bad("\0\0\0\0", 4, "zero bytes");
        check_bad("", 0, "it is empty");
        check_bad("{\"version\": 1, ", 15, "too early");
        check_bad("nonsense", 8, "no JSON");
        check_bad("[1, 2]", 6, "no JSON object");
        check_bad("{} {}", 5, "no JSON");
        check_bad("{\"version\": 1}", 14, "no version, or no overrides");
        check_bad("{\"version\": 2, \"overrides\": []}", 31, "version 2, this is 1");
        check_bad("{\"version\": \"1\", \"overrides\": []}", 33, "no version");
        memset(noise, '[', sizeof(noise));
        check_bad(noise, sizeof(noise), "no JSON");
}

/* The valid settings count, and are written to the file again at once. */
static void test_partly_bad(void **state) {
        static const char text[] = "{\"version\": 1, \"overrides\": [ 7,"
                                   "{\"name\": \"one.service\", \"settings\": {\"Priority\": 1000, \"Weight\": 12}},"
                                   "{\"name\": \"two\", \"settings\": {\"Priority\": 1}},"
                                   "{\"name\": \"three.service\", \"settings\": {\"Color\": 1, \"Priority\": {}, "
                                   "\"Class\": null}},"
                                   "{\"name\": \"four.service\"},"
                                   "{\"name\": \"five.service\", \"settings\": {\"Priority\": 5}} ] }";

        put(text, strlen(text));
        Overrides s = reopen(NULL, 1);
        assert_true(there_is(OVERRIDES_FILE ".bad"));
        s = reopen(&s, 0);
        assert_int_equal(HASH_COUNT(s.entries), 2);
        assert_int_equal(overrides_find(&s, "one.service")->weight, 12);
        assert_int_equal(overrides_find(&s, "one.service")->mask, 1U << SETTINGS_WEIGHT);
        assert_int_equal(priority_of(&s, "five.service"), 5);
        overrides_done(&s);
}

static void test_no_regular_file(void **state) {
        char path[256], target[256];

        path_of(path, sizeof(path), OVERRIDES_FILE);
        assert_int_equal(mkdir(path, 0700), 0);
        Overrides s = reopen(NULL, 1);
        overrides_done(&s);
        take_away(OVERRIDES_FILE ".bad");

        path_of(target, sizeof(target), "elsewhere");
        assert_int_equal(symlink(target, path), 0);
        s = reopen(NULL, 1);
        const Settings one = make("Priority", "1");
        assert_int_equal(overrides_set(&s, "one.service", &one), 0);
        assert_false(there_is("elsewhere"));
        overrides_done(&s);
}

/* Neither memory nor the disk has the change. */
static void test_what_cannot_be_written_has_not_happened(void **state) {
        Overrides s = reopen(NULL, 0);
        const Settings one = make("Priority", "1"), two = make("Priority", "2"), none = SETTINGS_NULL;
        struct rlimit limit, tiny;

        assert_int_equal(overrides_set(&s, "one.service", &one), 0);
        (void) signal(SIGXFSZ, SIG_IGN);
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
        tiny = limit;
        tiny.rlim_cur = 10;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &tiny), 0);
        assert_int_equal(overrides_set(&s, "one.service", &two), -EFBIG);
        assert_int_equal(overrides_set(&s, "one.service", &none), -EFBIG);
        assert_int_equal(overrides_set(&s, "new.service", &two), -EFBIG);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        assert_false(there_is("." OVERRIDES_FILE ".tmp"));
        assert_int_equal(priority_of(&s, "one.service"), 1);
        assert_null(overrides_find(&s, "new.service"));
        s = reopen(&s, 0);
        assert_int_equal(priority_of(&s, "one.service"), 1);
        assert_int_equal(HASH_COUNT(s.entries), 1);

        /* A file that a crash left of a former attempt does no harm. */
        char path[256];
        path_of(path, sizeof(path), "." OVERRIDES_FILE ".tmp");
        _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0);
        assert_true(fd >= 0);
        assert_int_equal(overrides_set(&s, "one.service", &two), 0);
        s = reopen(&s, 0);
        assert_int_equal(priority_of(&s, "one.service"), 2);
        overrides_done(&s);
}

static void test_no_directory(void **state) {
        Overrides s = OVERRIDES_NULL;
        const Settings one = make("Priority", "1");

        assert_int_equal(overrides_set(&s, "one.service", &one), -EOPNOTSUPP);
        char path[256];
        path_of(path, sizeof(path), "nonexistent");
        int r = overrides_open(path, &s, why);
        if (r != 0)
                print_error("%s\n", why);
        assert_int_equal(r, 0);
        assert_int_equal(overrides_set(&s, "one.service", &one), -ENOENT);
        assert_null(overrides_find(&s, "one.service"));
        overrides_done(&s);
}

static void test_too_many(void **state) {
        Overrides s = {.directory = strdup(directory)};
        const Settings one = make("Priority", "1");
        _cleanup_free_ char *text = NULL;
        size_t size;
        char name[32];
        FILE *f = open_memstream(&text, &size);

        assert_non_null(f);
        fputs("{\"version\": 1, \"overrides\": [", f);
        for (unsigned i = 0; i < OVERRIDES_MAX; i++)
                fprintf(f, "%s{\"name\": \"%u.service\", \"settings\": {\"Priority\": 1}}", i > 0 ? "," : "", i);
        fputs("]}", f);
        assert_int_equal(fclose(f), 0);
        assert_int_equal(overrides_parse(&s, text, size, why), 0);
        assert_int_equal(overrides_set(&s, "more.service", &one), -E2BIG);
        (void) snprintf(name, sizeof(name), "%u.service", OVERRIDES_MAX - 1);
        const Settings two = make("Priority", "2");
        assert_int_equal(overrides_set(&s, name, &two), 0);
        s = reopen(&s, 0);
        assert_int_equal(HASH_COUNT(s.entries), OVERRIDES_MAX);
        overrides_done(&s);
}

static DeviceSettings of_device(const char *policy, const char *key, uint64_t value) {
        DeviceSettings s = {.ops = policy ? policy_find(policy) : NULL};

        if (key)
                assert_int_equal(device_settings_set(&s, device_key_find(key), value), 0);
        return s;
}

static void check_device(const Overrides *s, const char *id, const DeviceSettings *expected) {
        const DeviceSettings *found = overrides_find_device(s, id);

        assert_true(expected ? found && device_settings_equal(found, expected) : !found);
}

/* Devices' settings are stored by id, beside groups; a key set for every device is removed from single ones. */
static void test_devices(void **state) {
        Overrides s = reopen(NULL, 0);
        const Settings one = make("Priority", "1");
        const DeviceSettings hpf = of_device("hpf", "TimeSliceUSec", 7000),
                             slow = of_device(NULL, "TimeSliceUSec", 9000), only = of_device("hpf", NULL, 0),
                             none = DEVICE_SETTINGS_NULL;
        DeviceSettings named = DEVICE_SETTINGS_NULL;

        assert_int_equal(device_settings_set_preemption(&named, "1"), 0);
        assert_int_equal(device_settings_set_accounting(&named, "exact"), 0);
        assert_int_equal(overrides_set(&s, "one.service", &one), 0);
        assert_int_equal(overrides_change_device(&s, "pci:0000:03:00.0", &hpf, 0), 0);
        assert_int_equal(overrides_change_device(&s, "cl:cpu", &named, 0), 0);
        s = reopen(&s, 0);
        check_device(&s, "pci:0000:03:00.0", &hpf);
        check_device(&s, "cl:cpu", &named);
        check_device(&s, OVERRIDES_EVERY_DEVICE, NULL);
        assert_int_equal(priority_of(&s, "one.service"), 1);

        assert_int_equal(overrides_change_device(&s, OVERRIDES_EVERY_DEVICE, &slow, 0), 0);
        s = reopen(&s, 0);
        check_device(&s, "pci:0000:03:00.0", &only);
        check_device(&s, OVERRIDES_EVERY_DEVICE, &slow);
        assert_int_equal(overrides_change_device(&s, "pci:0000:03:00.0", &none, ~0U), 0);
        assert_int_equal(overrides_change_device(&s, OVERRIDES_EVERY_DEVICE, &none, ~0U), 0);
        assert_int_equal(overrides_change_device(&s, "was:never", &none, ~0U), 0);
        s = reopen(&s, 0);
        assert_null(s.devices);
        assert_int_equal(priority_of(&s, "one.service"), 1);
        overrides_done(&s);
}

/* Settings that cannot be understood are reported, and the others count. */
static void test_devices_partly_bad(void **state) {
        static const char text[] =
                        "{\"version\": 1, \"overrides\": [], \"devices\": [ null, {\"id\": \"a b\"},"
                        "{\"id\": \"none\"},"
                        "{\"id\": \"a\", \"settings\": {\"Policy\": \"oak\", \"Concurrency\": 2}},"
                        "{\"id\": \"a\", \"settings\": {\"Concurrency\": 3}},"
                        "{\"id\": \"b\", \"settings\": {\"Concurrency\": -1, \"TimeSliceUSec\": \"9000\"}},"
                        "{\"id\": \"*\", \"settings\": {\"Preemption\": 1, \"Accounting\": \"off\", \"Color\": 1}} ] }";
        const DeviceSettings two = of_device(NULL, "Concurrency", 2);
        DeviceSettings off = DEVICE_SETTINGS_NULL;

        assert_int_equal(device_settings_set_accounting(&off, "off"), 0);
        put(text, strlen(text));
        Overrides s = reopen(NULL, 1);
        assert_true(there_is(OVERRIDES_FILE ".bad"));
        s = reopen(&s, 0);
        assert_int_equal(HASH_COUNT(s.devices), 2);
        check_device(&s, "a", &two);
        check_device(&s, OVERRIDES_EVERY_DEVICE, &off);
        overrides_done(&s);
        static const char no_list[] = "{\"version\": 1, \"overrides\": [], \"devices\": {}}";
        check_bad(no_list, strlen(no_list), "devices are no list");
}

/* A change that cannot be written is neither in memory nor on the disk; the number of devices is bounded. */
static void test_devices_that_cannot_be_written(void **state) {
        Overrides s = reopen(NULL, 0);
        const DeviceSettings two = of_device(NULL, "Concurrency", 2), three = of_device(NULL, "Concurrency", 3);
        struct rlimit limit, tiny;
        char id[32];

        assert_int_equal(overrides_change_device(&s, "a", &two, 0), 0);
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
        tiny = limit;
        tiny.rlim_cur = 10;
        (void) signal(SIGXFSZ, SIG_IGN);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &tiny), 0);
        assert_int_equal(overrides_change_device(&s, "a", &three, 0), -EFBIG);
        assert_int_equal(overrides_change_device(&s, OVERRIDES_EVERY_DEVICE, &three, 0), -EFBIG);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        check_device(&s, "a", &two);
        s = reopen(&s, 0);
        check_device(&s, "a", &two);
        check_device(&s, OVERRIDES_EVERY_DEVICE, NULL);
        for (unsigned i = 1; i < OVERRIDES_DEVICES; i++) {
                (void) snprintf(id, sizeof(id), "d:%u", i);
                assert_int_equal(overrides_change_device(&s, id, &two, 0), 0);
        }
        assert_int_equal(overrides_change_device(&s, "more", &two, 0), -E2BIG);
        assert_int_equal(overrides_change_device(&s, "a", &three, 0), 0);
        s = reopen(&s, 0);
        check_device(&s, "a", &three);
        assert_int_equal(HASH_COUNT(s.devices), OVERRIDES_DEVICES);
        overrides_done(&s);
        s = OVERRIDES_NULL;
        assert_int_equal(overrides_change_device(&s, "a", &two, 0), -EOPNOTSUPP);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test_setup(test_kept, setup),
                        cmocka_unit_test_setup(test_times_are_kept, setup),
                        cmocka_unit_test_setup(test_no_boot_id, setup),
                        cmocka_unit_test_setup(test_names, setup),
                        cmocka_unit_test_setup(test_truncated, setup),
                        cmocka_unit_test_setup(test_garbage, setup),
                        cmocka_unit_test_setup(test_partly_bad, setup),
                        cmocka_unit_test_setup(test_no_regular_file, setup),
                        cmocka_unit_test_setup(test_what_cannot_be_written_has_not_happened, setup),
                        cmocka_unit_test_setup(test_no_directory, setup),
                        cmocka_unit_test_setup(test_too_many, setup),
                        cmocka_unit_test_setup(test_devices, setup),
                        cmocka_unit_test_setup(test_devices_partly_bad, setup),
                        cmocka_unit_test_setup(test_devices_that_cannot_be_written, setup),
        };

        if (!mkdtemp(directory))
                return EXIT_FAILURE;
        int r = cmocka_run_group_tests(tests, NULL, NULL);
        (void) setup(NULL);
        (void) rmdir(directory);
        return r;
}
