/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* [Match]: which processes a class takes, by facts from the kernel and by their own names */

#include <pwd.h>
#include <unistd.h>

#include "service/settings/match.h"
#include "tests/lib/unit.h"

#define FILE_NAME "/etc/xsched/classes.d/x.class"

static unsigned line;

static int assign(Match *m, MatchKey key, const char *value) {
        return match_assign(m, match_items + key, value, FILE_NAME, ++line);
}

static void add(Match *m, MatchKey key, const char *value) {
        assert_int_equal(assign(m, key, value), 0);
}

static int setup(void **state) {
        line = 0;
        return 0;
}

static bool trusted(const Match *m, const char *cgroup) {
        MatchFacts f;

        match_facts_trusted(cgroup, SIZE_MAX, 1000, &f);
        return match_test(m, &f);
}

static bool all(const Match *m, const char *cgroup, const char *executable) {
        MatchFacts f;

        match_facts_all(cgroup, 1000, executable, &f);
        return match_test(m, &f);
}

static void test_nothing_matches_nobody(void **state) {
        Match m = MATCH_NULL;

        assert_false(trusted(&m, "/system.slice/a.service"));
        assert_false(trusted(&m, "/"));
}

static void test_units(void **state) {
        _cleanup_(match_done)
        Match m = MATCH_NULL;

        add(&m, MATCH_UNIT, "train-*.service  eval.scope");
        assert_true(trusted(&m, "/system.slice/train-7.service"));
        assert_true(trusted(&m, "/system.slice/train-7.service/worker"));
        assert_true(trusted(&m, "/a.slice/a-b.slice/eval.scope"));
        assert_false(trusted(&m, "/system.slice/train.service"));
        assert_false(trusted(&m, "/train-1.slice/other.service"));
        assert_false(trusted(&m, "/"));
        assert_false(trusted(&m, NULL));
        /* systemd's escape of what could be one of cgroupfs's files. */
        assert_true(trusted(&m, "/system.slice/_train-memory.service"));
}

/* Slice= matches any slice above the process. */
static void test_slices(void **state) {
        _cleanup_(match_done)
        Match m = MATCH_NULL;

        add(&m, MATCH_SLICE, "gpu-batch.slice");
        assert_true(trusted(&m, "/gpu.slice/gpu-batch.slice/x.service"));
        assert_true(trusted(&m, "/gpu.slice/gpu-batch.slice/gpu-batch-a.slice/x.service"));
        assert_false(trusted(&m, "/gpu.slice/x.service"));
}

static void test_and_or(void **state) {
        _cleanup_(match_done)
        Match m = MATCH_NULL;

        add(&m, MATCH_UNIT, "a.service");
        add(&m, MATCH_UNIT, "b.service");
        add(&m, MATCH_SLICE, "one.slice");
        assert_true(trusted(&m, "/one.slice/a.service"));
        assert_true(trusted(&m, "/one.slice/b.service"));
        assert_false(trusted(&m, "/one.slice/c.service"));
        assert_false(trusted(&m, "/two.slice/a.service"));
}

static void test_empty_resets_its_key(void **state) {
        _cleanup_(match_done)
        Match m = MATCH_NULL;

        add(&m, MATCH_UNIT, "a.service");
        add(&m, MATCH_SLICE, "one.slice");
        add(&m, MATCH_UNIT, "");
        assert_true(trusted(&m, "/one.slice/z.service"));
        add(&m, MATCH_UNIT, "b.service");
        assert_false(trusted(&m, "/one.slice/a.service"));
        assert_true(trusted(&m, "/one.slice/b.service"));
}

static void test_negation(void **state) {
        _cleanup_(match_done)
        Match m = MATCH_NULL;

        add(&m, MATCH_UNIT, "!ssh.service *.scope");
        assert_true(trusted(&m, "/system.slice/a.service"));
        assert_true(trusted(&m, "/"));
        assert_false(trusted(&m, "/system.slice/ssh.service"));
        assert_false(trusted(&m, "/user.slice/session-1.scope"));
        add(&m, MATCH_UNIT, "a* ssh* !ab.service");
        assert_true(trusted(&m, "/system.slice/aa.service"));
        assert_false(trusted(&m, "/system.slice/ab.service"));
        assert_false(trusted(&m, "/system.slice/ssh.service"));
        assert_false(trusted(&m, "/system.slice/b.service"));
}

static void test_groups(void **state) {
        _cleanup_(match_done)
        Match m = MATCH_NULL;

        add(&m, MATCH_GROUP, "/kubepods.slice /system.slice/train-*.service");
        assert_true(trusted(&m, "/kubepods.slice"));
        assert_true(trusted(&m, "/kubepods.slice/pod1/c1"));
        assert_true(trusted(&m, "/system.slice/train-1.service"));
        assert_true(trusted(&m, "/system.slice/train-1.service/below"));
        assert_false(trusted(&m, "/kubepods.slice2/pod1"));
        assert_false(trusted(&m, "/machine.slice/kubepods.slice"));
        assert_false(trusted(&m, "/system.slice/sub/train-1.service")); /* no '*' matches a slash */
        assert_false(trusted(&m, "/system.slice/eval.service"));
        assert_false(trusted(&m, "/"));

        /* Names of cgroups below a unit come from the unit's processes. */
        add(&m, MATCH_GROUP, "");
        add(&m, MATCH_GROUP, "/system.slice/*/vip");
        assert_false(trusted(&m, "/system.slice/a.service/vip"));
        assert_true(all(&m, "/system.slice/a.service/vip/x", "x"));

        add(&m, MATCH_GROUP, "");
        add(&m, MATCH_GROUP, "/ !/user.slice");
        assert_true(trusted(&m, "/"));
        assert_true(trusted(&m, "/system.slice/a.service"));
        assert_false(trusted(&m, "/user.slice/user-1000.slice/session-1.scope"));
}

static void test_users(void **state) {
        _cleanup_(match_done)
        Match m = MATCH_NULL;
        MatchFacts f;

        add(&m, MATCH_USER, "root 1000");
        assert_true(trusted(&m, "/x.slice"));
        match_facts_trusted("/x.slice", SIZE_MAX, 0, &f);
        assert_true(match_test(&m, &f));
        match_facts_trusted("/x.slice", SIZE_MAX, 1001, &f);
        assert_false(match_test(&m, &f));
        match_facts_trusted("/x.slice", SIZE_MAX, MATCH_NO_USER, &f);
        assert_false(match_test(&m, &f));
        /* Nor does an unknown user count as another user than root. */
        add(&m, MATCH_USER, "");
        add(&m, MATCH_USER, "!root");
        assert_false(match_test(&m, &f));
        assert_true(trusted(&m, "/x.slice"));
}

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void test_containers(void **state) {
        _cleanup_(match_done)
        Match m = MATCH_NULL, n = MATCH_NULL;

        add(&m, MATCH_CONTAINER, "docker:*");
        assert_true(trusted(&m, "/system.slice/docker-" ID ".scope"));
        assert_false(trusted(&m, "/machine.slice/libpod-" ID ".scope"));
        assert_false(trusted(&m, "/system.slice/a.service"));
        add(&m, MATCH_CONTAINER, "");
        add(&m, MATCH_CONTAINER, "0123*");
        assert_true(trusted(&m, "/machine.slice/libpod-" ID ".scope"));
        /* Outside of containers. */
        add(&n, MATCH_CONTAINER, "!*");
        assert_true(trusted(&n, "/system.slice/a.service"));
        assert_false(trusted(&n, "/system.slice/docker-" ID ".scope"));
        match_done(&n);
}

static void test_pods(void **state) {
        static const char pod[] = "/kubepods.slice/kubepods-burstable.slice/"
                                  "kubepods-burstable-pod01234567_89ab_cdef_0123_456789abcdef.slice/"
                                  "cri-containerd-" ID ".scope";
        _cleanup_(match_done)
        Match m = MATCH_NULL;

        add(&m, MATCH_POD, "burstable:*");
        assert_true(trusted(&m, pod));
        add(&m, MATCH_POD, "");
        add(&m, MATCH_POD, "01234567-89ab-*");
        assert_true(trusted(&m, pod));
        add(&m, MATCH_POD, "");
        add(&m, MATCH_POD, "guaranteed:*");
        assert_false(trusted(&m, pod));
        assert_false(trusted(&m, "/system.slice/a.service"));
}

static void test_executables(void **state) {
        _cleanup_(match_done)
        Match m = MATCH_NULL;

        add(&m, MATCH_EXECUTABLE, "/usr/bin/python3* ollama");
        assert_true(all(&m, "/a.slice", "/usr/bin/python3.11"));
        assert_true(all(&m, "/a.slice", "/opt/x/ollama"));
        assert_true(all(&m, "/a.slice", "ollama"));
        assert_false(all(&m, "/a.slice", "/opt/bin/python3"));
        assert_false(all(&m, "/a.slice", ""));
        assert_false(trusted(&m, "/a.slice"));
        /* A process does not get into the class by another name, either. */
        add(&m, MATCH_EXECUTABLE, "");
        add(&m, MATCH_EXECUTABLE, "!ollama");
        assert_true(all(&m, "/a.slice", "x"));
        assert_false(trusted(&m, "/a.slice"));
}

/* Names of cgroups below a unit come from the unit's processes. */
static void test_what_is_delegated(void **state) {
        static const char mine[] = "/user.slice/user-1000.slice/user@1000.service/app.slice/vip.service";
        _cleanup_(match_done)
        Match m = MATCH_NULL;

        add(&m, MATCH_UNIT, "vip.service");
        assert_false(trusted(&m, mine));
        assert_true(all(&m, mine, "x"));
        add(&m, MATCH_UNIT, "user@*.service");
        assert_true(trusted(&m, mine));
        add(&m, MATCH_SLICE, "app.slice");
        assert_false(trusted(&m, mine));
        assert_true(all(&m, mine, "x"));

        add(&m, MATCH_UNIT, "");
        add(&m, MATCH_SLICE, "");
        add(&m, MATCH_CONTAINER, "podman:*");
        static const char theirs[] = "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID ".scope";
        assert_false(trusted(&m, theirs));
        assert_true(all(&m, theirs, "x"));
}

#define POD "pod01234567-89ab-cdef-0123-456789abcdef"

/* Paths that look like a service's own cgroups: where a user owns the service, the user has named them. */
static void test_what_is_below_a_service(void **state) {
        static const struct {
                MatchKey key;
                const char *value, *path;
                size_t named; /* the shortest prefix that is enough */
        } cases[] = {
                        {MATCH_CONTAINER, "podman:*", "/a.slice/b.service/libpod-payload-" ID "/x",
                                        strlen("/a.slice/b.service/libpod-payload-" ID)},
                        {MATCH_CONTAINER, "docker:*", "/a.slice/b.service/docker-" ID ".scope",
                                        strlen("/a.slice/b.service/docker-" ID ".scope")},
                        {MATCH_POD, "guaranteed:*", "/a.slice/b.service/kubepods/" POD "/" ID,
                                        strlen("/a.slice/b.service/kubepods/" POD "/" ID)},
                        {MATCH_SLURM_JOB, "7.batch", "/a.slice/slurmstepd.scope/job_7/step_batch/user",
                                        strlen("/a.slice/slurmstepd.scope/job_7/step_batch")},
                        {MATCH_SLURM_JOB, "7", "/slurm/uid_5/job_7", strlen("/slurm/uid_5/job_7")},
                        {MATCH_UNIT, "b.service", "/a.slice/b.service/x", strlen("/a.slice/b.service")},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(match_done)
                Match m = MATCH_NULL;
                MatchFacts f;

                add(&m, cases[i].key, cases[i].value);
                match_facts_trusted(cases[i].path, cases[i].named, 1000, &f);
                assert_true(match_test(&m, &f));
                match_facts_trusted(cases[i].path, cases[i].named - 1, 1000, &f);
                assert_false(match_test(&m, &f));
                assert_true(all(&m, cases[i].path, "x"));
        }
}

static bool labelled(const Match *m, const char *key, const char *value) {
        MatchFacts f;

        match_facts_trusted("/kubepods.slice/x.scope", SIZE_MAX, 1000, &f);
        if (key)
                match_facts_add_label(&f, key, value);
        match_facts_add_label(&f, "pod", "web-1");
        return match_test(m, &f);
}

static void test_labels(void **state) {
        static const struct {
                MatchKey key;
                const char *pattern, *label, *fits, *fits_not;
        } cases[] = {
                        {MATCH_NAMESPACE, "research-* prod", "namespace", "research-1", "prod-2"},
                        {MATCH_NAMESPACE, "!kube-*", "namespace", "prod", "kube-system"},
                        {MATCH_PRIORITY_CLASS, "high", "priority-class", "high", "higher"},
                        {MATCH_POD_LABEL, "app=train-*", "pod-label.app", "train-7", "train"},
                        {MATCH_POD_LABEL, "example.com/team=a", "pod-label.example.com/team", "a", "b"},
                        {MATCH_POD_LABEL, "app=", "pod-label.app", "", "x"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(match_done)
                Match m = MATCH_NULL;

                add(&m, cases[i].key, cases[i].pattern);
                assert_true(labelled(&m, cases[i].label, cases[i].fits));
                assert_false(labelled(&m, cases[i].label, cases[i].fits_not));
                assert_int_equal(labelled(&m, NULL, NULL), cases[i].pattern[0] == '!');
        }
        _cleanup_(match_done)
        Match any = MATCH_NULL;
        add(&any, MATCH_POD_LABEL, "app");
        assert_true(labelled(&any, "pod-label.app", ""));
        assert_false(labelled(&any, "pod-label.apple", "x"));
}

/* Values that would match nothing, or more than was meant. */
static void test_bad_values_break_it(void **state) {
        static const struct {
                MatchKey key;
                const char *value;
        } bad[] = {
                        {MATCH_UNIT, "train"},
                        {MATCH_UNIT, "/system.slice/a.service"},
                        {MATCH_NAMESPACE, "a/b"},
                        {MATCH_POD_LABEL, "=x"},
                        {MATCH_POD_LABEL, "a*=x"},
                        {MATCH_UNIT, "!"},
                        {MATCH_UNIT, "a.service !"},
                        {MATCH_UNIT, "a.serv\x01ice"},
                        {MATCH_SLICE, "gpu"},
                        {MATCH_GROUP, "kubepods.slice/*"},
                        {MATCH_GROUP, "/kubepods.slice/"},
                        {MATCH_GROUP, "/../.."},
                        {MATCH_GROUP, "/kubepods.slice/../*"},
                        {MATCH_GROUP, "/kubepods.slice/./*"},
                        {MATCH_GROUP, "//kubepods.slice"},
                        {MATCH_USER, "no-such-user"},
                        {MATCH_USER, "4294967295"},
                        {MATCH_USER, "-1"},
                        {MATCH_EXECUTABLE, "bin/x"},
        };

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                _cleanup_(match_done)
                Match m = MATCH_NULL, copy = MATCH_NULL;

                add(&m, MATCH_SLICE, "one.slice");
                assert_true(trusted(&m, "/one.slice/a.service"));
                assert_int_equal(assign(&m, bad[i].key, bad[i].value), -EINVAL);
                assert_true(m.broken);
                assert_false(trusted(&m, "/one.slice/a.service"));
                assert_int_equal(match_copy(&m, &copy), 0);
                assert_true(copy.broken);
                match_done(&copy);
        }
        _cleanup_(match_done)
        Match m = MATCH_NULL;
        add(&m, MATCH_SLICE, "one.slice");
        assert_int_equal(match_assign(&m, NULL, NULL, FILE_NAME, 3), 0);
        assert_false(trusted(&m, "/one.slice/a.service"));
}

static void test_too_many(void **state) {
        _cleanup_(match_done)
        Match m = MATCH_NULL;
        int r = 0;

        for (unsigned i = 0; r >= 0 && i < 5000; i++)
                r = assign(&m, MATCH_UNIT, "a.service");
        assert_int_equal(r, -E2BIG);
        assert_true(m.broken);
}

static void test_explain(void **state) {
        _cleanup_(match_done)
        Match m = MATCH_NULL;
        _cleanup_free_ char *text = NULL, *again = NULL;
        MatchFacts f;

        add(&m, MATCH_UNIT, "b.service a*.service");
        add(&m, MATCH_SLICE, "!other.slice");
        match_facts_trusted("/one.slice/ab.service", SIZE_MAX, 0, &f);
        assert_int_equal(match_explain(&m, &f, &text), 0);
        assert_string_equal(text, FILE_NAME ":1: Unit=a*.service, " FILE_NAME ":2: Slice=!other.slice");

        Match copy;
        assert_int_equal(match_copy(&m, &copy), 0);
        match_done(&m);
        assert_int_equal(match_explain(&copy, &f, &again), 0);
        assert_string_equal(text, again);
        match_done(&copy);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test_setup(test_labels, setup),
                        cmocka_unit_test_setup(test_nothing_matches_nobody, setup),
                        cmocka_unit_test_setup(test_units, setup),
                        cmocka_unit_test_setup(test_slices, setup),
                        cmocka_unit_test_setup(test_and_or, setup),
                        cmocka_unit_test_setup(test_empty_resets_its_key, setup),
                        cmocka_unit_test_setup(test_negation, setup),
                        cmocka_unit_test_setup(test_groups, setup),
                        cmocka_unit_test_setup(test_users, setup),
                        cmocka_unit_test_setup(test_containers, setup),
                        cmocka_unit_test_setup(test_pods, setup),
                        cmocka_unit_test_setup(test_what_is_below_a_service, setup),
                        cmocka_unit_test_setup(test_executables, setup),
                        cmocka_unit_test_setup(test_what_is_delegated, setup),
                        cmocka_unit_test_setup(test_bad_values_break_it, setup),
                        cmocka_unit_test_setup(test_too_many, setup),
                        cmocka_unit_test_setup(test_explain, setup),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
