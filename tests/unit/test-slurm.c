/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The Slurm plugin's input from users, the administrator and the kernel, tested without Slurm
 */

#include <fcntl.h>
#include <sys/xattr.h>

#include "common/macro.h"
#include "common/shim-list.h"
#include "common/time-util.h"
#include "slurm/ask.h"
#include "slurm/mapping.h"
#include "slurm/place.h"
#include "slurm/request.h"
#include "tests/lib/unit.h"

/* --- requests --- */

static void check_request(RequestKey k, const char *text, const char *expected) {
        char value[REQUEST_VALUE_MAX];
        Request r = {0};

        assert_int_equal(request_set(&r, k, text), 0);
        assert_int_equal(r.given, 1U << k);
        assert_true(request_has(&r, k));
        assert_string_equal(request_format(&r, k, value), expected);
}

static void check_refused(RequestKey k, const char *text, int error) {
        Request r = {.given = 1U << k};
        r.value[k] = 7;
        const Request before = r;

        assert_int_equal(request_set(&r, k, text), error);
        assert_memory_equal(&r, &before, sizeof(r));
}

static void test_requests(void **state) {
        check_request(REQUEST_PRIORITY, "-255", "-255");
        check_request(REQUEST_PRIORITY, "255", "255");
        check_refused(REQUEST_PRIORITY, "256", -ERANGE);
        check_refused(REQUEST_PRIORITY, "-256", -ERANGE);
        check_refused(REQUEST_PRIORITY, "high", -EINVAL);
        check_refused(REQUEST_PRIORITY, "", -EINVAL);
        check_refused(REQUEST_PRIORITY, "1 ", -EINVAL);
        check_request(REQUEST_WEIGHT, "1", "1");
        check_request(REQUEST_WEIGHT, "10000", "10000");
        check_refused(REQUEST_WEIGHT, "0", -ERANGE);
        check_refused(REQUEST_WEIGHT, "10001", -ERANGE);
        check_refused(REQUEST_WEIGHT, "-1", -ERANGE);
        check_request(REQUEST_MAX, "30", "30%");
        check_request(REQUEST_MAX, "10000%", "10000%");
        check_refused(REQUEST_MAX, "10001%", -ERANGE);
        check_refused(REQUEST_MAX, "0.5%", -EINVAL);
        check_request(REQUEST_MIN, "100%", "100%");
        check_refused(REQUEST_MIN, "101", -ERANGE);
        assert_string_equal(request_key_to_string(REQUEST_MIN), "min");
        assert_string_equal(request_key_range(REQUEST_WEIGHT), "an integer, 1..10000");
}

/* The last option counts, as with all options. */
static void test_no_limit(void **state) {
        Request r = {0};

        assert_int_equal(request_set(&r, REQUEST_MAX, "30"), 0);
        assert_int_equal(request_set(&r, REQUEST_PRIORITY, "3"), 0);
        assert_int_equal(request_set(&r, REQUEST_MAX, "infinity"), 0);
        assert_int_equal(r.given, 1U << REQUEST_PRIORITY);
}

/* --- the administrator's mapping --- */

static void test_valid_arguments(void **state) {
        static const char *const good[] = {
                        "partition.online=interactive", "qos.a.b=c=batch", "class=x", "min=20%", "min=0", "shim=no"};
        static const char *const bad[] = {"", "partition.=batch", "partition.online",
                        "partition.online=", "partition.online=a b", "qos=batch", "class=", "class=a/b",
                        "min=", "min=101", "min=-1", "shim=perhaps", "colour=red",
                        "class=0123456789012345678901234567890123456789012345678901234567890123"};

        for (size_t i = 0; i < ELEMENTSOF(good); i++)
                assert_true(mapping_is_valid(good[i]));
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                assert_false(mapping_is_valid(bad[i]));
}

static void test_mapping(void **state) {
        char *arguments[] = {(char *) "partition.online=interactive", (char *) "partition.on=system",
                        (char *) "qos.bulk=batch", (char *) "qos.c=d=idle", (char *) "partition.bad=a b",
                        (char *) "partition.online=online", (char *) "min=10", (char *) "min=x", (char *) "shim=no"};
        int n = (int) ELEMENTSOF(arguments);

        assert_string_equal(mapping_class(n, arguments, "online", "normal"), "online");
        assert_string_equal(mapping_class(n, arguments, "on", ""), "system");
        assert_string_equal(mapping_class(n, arguments, "online", "bulk"), "batch");
        assert_string_equal(mapping_class(n, arguments, "other", "c=d"), "idle");
        assert_null(mapping_class(n, arguments, "bad", "normal"));
        assert_null(mapping_class(n, arguments, "onlin", "bul"));
        assert_null(mapping_class(n, arguments, NULL, NULL));
        assert_true(mapping_asks_controller(n, arguments));
        assert_int_equal(mapping_min(n, arguments), 10);
        assert_false(mapping_shim(n, arguments));

        /* A blank is %20; other text is taken as it is. */
        char *blanks[] = {(char *) "qos.my%20own%20qos=batch", (char *) "partition.100%20=idle",
                        (char *) "partition.%20=online", (char *) "qos.a%2=batch"};
        assert_string_equal(mapping_class(4, blanks, "x", "my own qos"), "batch");
        assert_string_equal(mapping_class(4, blanks, "x", "my%20own%20qos"), "batch");
        assert_string_equal(mapping_class(4, blanks, "100%20", ""), "idle");
        assert_string_equal(mapping_class(4, blanks, "100 ", ""), "idle");
        assert_string_equal(mapping_class(4, blanks, " ", ""), "online");
        assert_string_equal(mapping_class(4, blanks, "x", "a%2"), "batch");
        assert_null(mapping_class(4, blanks, "100", "my own qo"));
        assert_null(mapping_class(4, blanks, "100  ", "my own qos "));
        assert_null(mapping_class(4, blanks, "", "my"));

        char *all[] = {(char *) "class=batch", (char *) "qos.x=idle"};
        assert_string_equal(mapping_class(2, all, "other", NULL), "batch");
        assert_string_equal(mapping_class(2, all, "other", "x"), "idle");
        assert_false(mapping_asks_controller(1, all));
        assert_true(mapping_shim(2, all));
        assert_int_equal(mapping_min(2, all), 0);
        assert_null(mapping_class(0, NULL, "other", "x"));
}

/* --- the job's cgroup --- */

static void check_place(const char *text, uint32_t job, const char *of_job, const char *of_step) {
        _cleanup_free_ char *found_job = NULL, *found_step = NULL;

        int r = place_find(text, job, &found_job, &found_step);
        if (!of_job) {
                assert_int_equal(r, -ENOENT);
                assert_null(found_job);
                return;
        }
        assert_int_equal(r, 0);
        assert_string_equal(found_job, of_job);
        assert_string_equal(found_step, of_step);
}

static void test_place(void **state) {
#define SCOPE "/system.slice/n1_slurmstepd.scope"
        check_place("0::" SCOPE "/job_6/step_0/slurm\n", 6, SCOPE "/job_6", SCOPE "/job_6/step_0");
        check_place("0::" SCOPE "/job_6/step_batch", 6, SCOPE "/job_6", SCOPE "/job_6/step_batch");
        check_place("9:name=systemd:/job_6/step_0\n0::" SCOPE "/job_6/step_extern/slurm\n", 6, SCOPE "/job_6",
                        SCOPE "/job_6/step_extern");
        /* Slurm in a job of Slurm. */
        check_place("0::/job_6/step_0" SCOPE "/job_6/step_1/slurm\n", 6, "/job_6/step_0" SCOPE "/job_6",
                        "/job_6/step_0" SCOPE "/job_6/step_1");
        check_place("0::/job_5/step_0" SCOPE "/job_6/step_1/slurm\n", 5, "/job_5", "/job_5/step_0");
        /* A job by its SLUID. Where Slurm runs in a job, the innermost job counts. */
        check_place("0::" SCOPE "/sD6SM85E6NGA00/step_0/slurm\n", 6, SCOPE "/sD6SM85E6NGA00",
                        SCOPE "/sD6SM85E6NGA00/step_0");
        check_place("0::" SCOPE "/sD6SM85E6NGA00/step_0" SCOPE "/job_6/step_1\n", 6,
                        SCOPE "/sD6SM85E6NGA00/step_0" SCOPE "/job_6",
                        SCOPE "/sD6SM85E6NGA00/step_0" SCOPE "/job_6/step_1");
        check_place("0::" SCOPE "/sD6SM85E6NGA0/step_0/slurm\n", 6, NULL, NULL);
        check_place("0::" SCOPE "/sD6SM85E6NGA000/step_0/slurm\n", 6, NULL, NULL);
        check_place("0::" SCOPE "/sD6SM85E6NGAi0/step_0/slurm\n", 6, NULL, NULL);
        check_place("0::" SCOPE "/sD6SM85E6NGA00/user\n", 6, NULL, NULL);
        check_place("0::" SCOPE "/job_6/step_0/slurm\n", 7, NULL, NULL);
        check_place("0::" SCOPE "/job_66/step_0/slurm\n", 6, NULL, NULL);
        check_place("0::" SCOPE "/job_6\n", 6, NULL, NULL);
        check_place("0::" SCOPE "/ajob_6/step_0\n", 6, NULL, NULL);
        check_place("0::/../job_6/step_0\n", 6, NULL, NULL);
        check_place("0::/./job_6/step_0\n", 6, NULL, NULL);
        check_place("0::job_6/step_0\n", 6, NULL, NULL);
        check_place("9:freezer:/slurm/uid_0/job_6/step_0\n", 6, NULL, NULL);
        check_place("", 6, NULL, NULL);
        assert_int_equal(place_open("/../etc"), -EINVAL);
        assert_int_equal(place_open(""), -EINVAL);
}

static void check_class(int fd, const char *expected, bool settled) {
        char value[64] = "";

        assert_true(fgetxattr(fd, "user.xsched.class", value, sizeof(value) - 1) >= 0);
        assert_string_equal(value, expected);
        assert_int_equal(place_has_class(fd), settled);
}

/* A class that was set while the controller could not be asked counts until a step gets the controller's answer. */
static void test_class(void **state) {
        char path[] = "test-slurm.XXXXXX";

        assert_non_null(mkdtemp(path));
        _cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(fd >= 0);
        assert_false(place_has_class(fd));
        assert_int_equal(place_set_class(fd, "idle", false), 0);
        check_class(fd, "idle", false);
        assert_int_equal(place_set_class(fd, "idle", false), 0);
        check_class(fd, "idle", false);
        assert_int_equal(place_set_class(fd, "batch", true), 0);
        check_class(fd, "batch", true);
        /* A later step, which waited longer without an answer, does not change the class. */
        assert_int_equal(place_set_class(fd, "idle", false), 0);
        check_class(fd, "batch", true);
        assert_int_equal(rmdir(path), 0);
}

/* --- what the controller tells --- */

static void test_answer(void **state) {
        static const char *const bad[] = {"", "partition=a", "partition=a\n", "partition=a\nqos=b",
                        "qos=b\npartition=a\n", "partition=\nqos=b\n", "partition=a\nqos=b\nmore\n",
                        "partition=a\nqos=\033[1m\n"};
        Answer a = {.partition = "before"};

        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                assert_int_equal(answer_parse(bad[i], &a), -ENODATA);
        assert_string_equal(a.partition, "before");
        assert_int_equal(answer_parse("partition=on line\nqos=\n", &a), 0);
        assert_string_equal(a.partition, "on line");
        assert_string_equal(a.qos, "");
        assert_int_equal(answer_parse("partition=a\nqos=b\n", &a), 0);
        assert_string_equal(a.qos, "b");
}

/* Programs that never answer, that end without output, and a file that is no program. The test runs itself as each of
 * them. */
static void test_asking(void **state) {
        Answer a;

        assert_int_equal(ask_job("/no/such/program", 1, NSEC_PER_SEC, &a), -ENOENT);
        assert_int_equal(ask_job("/bin/true", 1, 30 * NSEC_PER_SEC, &a), -ENODATA);
        assert_int_equal(ask_job("/bin/echo", 1, 30 * NSEC_PER_SEC, &a), -ENODATA);
        assert_int_equal(ask_job(*state, 1, 50 * NSEC_PER_MSEC, &a), -ETIMEDOUT);
}

/* --- lists of libraries --- */

static void check_list(const char *list, const char *expected) {
        _cleanup_free_ char *value = NULL;

        assert_int_equal(shim_list_prepend(list, "/lib/xsched/a.so", &value), 0);
        assert_string_equal(value, expected);
}

static void test_lists(void **state) {
        char *value = NULL;

        check_list(NULL, "/lib/xsched/a.so");
        check_list("", "/lib/xsched/a.so");
        check_list("/x/b.so:/y/c.so", "/lib/xsched/a.so:/x/b.so:/y/c.so");
        check_list("/x/b.so /y/c.so", "/lib/xsched/a.so:/x/b.so /y/c.so");
        check_list("/other/a.so", "/lib/xsched/a.so");
        check_list("/x/b.so:/other/a.so", "/lib/xsched/a.so:/x/b.so");
        check_list("/other/a.so:/x/b.so:a.so", "/lib/xsched/a.so:/x/b.so");
        check_list("/x/ba.so", "/lib/xsched/a.so:/x/ba.so");
        assert_int_equal(shim_list_prepend("b.so", "/a b/a.so", &value), -EINVAL);
        assert_null(value);
        assert_ptr_equal(shim_list_find("b.so", "/x/a.so"), NULL);
}

int main(int argc, char *argv[]) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_requests),
                        cmocka_unit_test(test_no_limit),
                        cmocka_unit_test(test_valid_arguments),
                        cmocka_unit_test(test_mapping),
                        cmocka_unit_test(test_place),
                        cmocka_unit_test(test_class),
                        cmocka_unit_test(test_answer),
                        cmocka_unit_test_prestate(test_asking, argv[0]),
                        cmocka_unit_test(test_lists),
        };

        /* Called by test_asking(): never answers. */
        if (argc == 3)
                for (;;)
                        (void) pause();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
