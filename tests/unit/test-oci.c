/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The input that the OCI hook takes from container runtimes, tested without a runtime
 */

#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>

#include "oci/annotations.h"
#include "oci/cgroup.h"
#include "oci/preload-file.h"
#include "tests/lib/unit.h"

static const char *hook;

/* --- the state --- */

static void parse(const char *text, OciState *ret) {
        assert_int_equal(oci_state_parse(text, strlen(text), ret), 0);
}

static void test_state(void **state) {
        OciState s = OCI_STATE_NULL;

        parse("{\"pid\":12,\"id\":\"abc\",\"annotations\":{\"a\":\"b\",\"n\":1,\"z\":\"x\\u0000y\"}}", &s);
        assert_int_equal(s.pid, 12);
        assert_string_equal(oci_state_id(&s), "abc");
        assert_string_equal(oci_state_annotation(&s, "a"), "b");
        assert_null(oci_state_annotation(&s, "n"));
        assert_null(oci_state_annotation(&s, "z"));
        assert_null(oci_state_annotation(&s, "none"));
        oci_state_done(&s);
        parse("{\"pid\":-1,\"id\":7,\"annotations\":[\"a\"]}", &s);
        assert_int_equal(s.pid, 0);
        assert_null(oci_state_id(&s));
        assert_null(oci_state_annotation(&s, "a"));
        oci_state_done(&s);
        parse("{\"pid\":99999999999}", &s);
        assert_int_equal(s.pid, 0);
        oci_state_done(&s);
}

static void test_no_state(void **state) {
        static const char *const texts[] = {"", "{", "[]", "null", "7", "\"x\"", "{\"pid\":}"};
        OciState s = OCI_STATE_NULL;

        for (size_t i = 0; i < ELEMENTSOF(texts); i++)
                assert_int_equal(oci_state_parse(texts[i], strlen(texts[i]), &s), -EINVAL);
        _cleanup_free_ char *deep = malloc(100000);
        memset(deep, '[', 100000);
        assert_int_equal(oci_state_parse(deep, 100000, &s), -EINVAL);
        assert_null(s.json);
}

static void test_root(void **state) {
        char directory[] = "/tmp/test-oci.XXXXXX", path[128], text[256];
        _cleanup_free_ char *root = NULL, *relative = NULL;
        OciState s;

        assert_non_null(mkdtemp(directory));
        (void) snprintf(path, sizeof(path), "%s/config.json", directory);
        (void) snprintf(text, sizeof(text), "{\"bundle\":\"%s\"}", directory);
        parse(text, &s);
        assert_int_equal(oci_state_root(&s, &root), -ENOENT);
        for (int i = 0; i < 3; i++) {
                static const char *const configs[] = {
                                "{\"root\":{\"path\":\"/a/b\"}}", "{\"root\":{\"path\":\"rootfs\"}}", "{\"root\":7}"};
                FILE *f = fopen(path, "we");

                assert_non_null(f);
                (void) fputs(configs[i], f);
                assert_int_equal(fclose(f), 0);
                assert_int_equal(oci_state_root(&s, i == 1 ? &relative : &root), i == 2 ? -EINVAL : 0);
        }
        assert_string_equal(root, "/a/b");
        (void) snprintf(text, sizeof(text), "%s/rootfs", directory);
        assert_string_equal(relative, text);
        oci_state_done(&s);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(rmdir(directory), 0);
}

/* --- the cgroup --- */

static void check_cgroup(const char *text, const char *id, const char *expected) {
        _cleanup_free_ char *path = NULL;

        assert_int_equal(oci_cgroup_find(text, id, &path), expected ? 0 : -ENOENT);
        if (expected)
                assert_string_equal(path, expected);
}

static void test_cgroup(void **state) {
        check_cgroup("0::/machine.slice/libpod-4711.scope\n", "4711", "/machine.slice/libpod-4711.scope");
        check_cgroup("0::/machine.slice/libpod-4711.scope/container\n", "4711", "/machine.slice/libpod-4711.scope");
        check_cgroup("9:cpu:/x/4711\n0::/docker/4711/init\n", "4711", "/docker/4711");
        check_cgroup("0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-ab.scope\n", "ab",
                        "/kubepods.slice/kubepods-pod1.slice/cri-containerd-ab.scope");
        check_cgroup("0::/system.slice/k.slice:cri-containerd:ab\n", "ab", "/system.slice/k.slice:cri-containerd:ab");
        /* Other cgroups with similar names. */
        check_cgroup("0::/user.slice/user-0.slice/session-1.scope\n", "4711", NULL);
        check_cgroup("0::/machine.slice/libpod-14711.scope\n", "4711", NULL);
        check_cgroup("0::/machine.slice/libpod-4711x.scope\n", "4711", NULL);
        check_cgroup("9:cpu:/libpod-4711.scope\n", "4711", NULL);
        check_cgroup("9:cpu:/libpod-4711.scope\n0::/\n", "4711", NULL);
        check_cgroup("0::/x\n1:name=y:/libpod-4711.scope\n", "4711", NULL);
        check_cgroup("0::/x", "", NULL);
        check_cgroup("0::/x", NULL, NULL);
        check_cgroup("0::", "x", NULL);
        check_cgroup("", "x", NULL);
}

static void test_engine(void **state) {
        assert_true(oci_cgroup_is_of_crio("/kubepods.slice/kubepods-pod1.slice/crio-ab.scope"));
        assert_true(oci_cgroup_is_of_crio("/kubepods/pod1/crio-ab"));
        assert_false(oci_cgroup_is_of_crio("/kubepods.slice/kubepods-pod1.slice/cri-containerd-ab.scope"));
        assert_false(oci_cgroup_is_of_crio("/crio-parent/ab"));
        assert_false(oci_cgroup_is_of_crio("crio-ab"));
}

/* --- annotations --- */

static void collect(const char *key, const char *value, void *userdata) {
        FILE *f = userdata;
        (void) fprintf(f, "%s=%s\n", key, value);
}

/* The result that a case checks: settings, or labels under one engine or another. */
enum { SETTINGS, LABELS, LABELS_OF_CRIO };

static void check_found(const OciState *s, const AnnotationRules *rules, int what, const char *expected) {
        _cleanup_free_ char *text = NULL;
        size_t size;
        FILE *f = open_memstream(&text, &size);

        assert_non_null(f);
        if (what != SETTINGS)
                annotations_labels(s, what == LABELS_OF_CRIO, rules, collect, f);
        else
                annotations_settings(s, rules, collect, f);
        assert_int_equal(fclose(f), 0);
        assert_string_equal(text, expected);
}

static void count(const ConfProblem *p, void *userdata) {
        ++*(unsigned *) userdata;
}

static void check_rules_of(const OciState *s, const char *text, unsigned problems, int what, const char *expected) {
        char path[] = "/tmp/test-oci.XXXXXX";
        AnnotationRules rules;
        unsigned n = 0;

        _cleanup_close_ int fd = mkstemp(path);
        assert_int_equal(write(fd, text, strlen(text)), strlen(text));
        assert_int_equal(annotation_rules_read(path, count, &n, &rules), 0);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(n, problems);
        check_found(s, &rules, what, expected);
}

static void check_rules(const OciState *s, const char *text, unsigned problems, const char *expected) {
        check_rules_of(s, text, problems, SETTINGS, expected);
}

/* An annotation of a pod's author is a claim, and never counts as the engine's own word. */
static void test_labels(void **state) {
        static const struct {
                const char *annotations, *rules, *expected;
                bool of_crio;
        } cases[] = {
                        {"\"io.kubernetes.cri.sandbox-namespace\":\"mine\",\"io.kubernetes.pod.namespace\":\"prod\"",
                                        "", "label.namespace=mine\n", false},
                        /* CRI-O passes on an author's annotations with containerd's names. */
                        {"\"io.kubernetes.cri.sandbox-namespace\":\"prod\",\"io.kubernetes.pod.namespace\":\"mine\"",
                                        "", "label.namespace=mine\n", true},
                        {"\"io.kubernetes.cri.sandbox-namespace\":\"prod\",\"xsched.org/pod-label.app\":\"forged\"",
                                        "RaisingAnnotations=pod-label", "", true},
                        /* containerd passes on annotations with CRI-O's names, where it is configured to. */
                        {"\"io.kubernetes.cri-o.Labels\":\"{\\\"app\\\":\\\"forged\\\"}\"",
                                        "RaisingAnnotations=pod-label", "", false},
                        {"\"io.kubernetes.pod.namespace\":\"prod\"", "", "label.namespace=prod\n"},
                        {"\"xsched.org/priority-class\":\"high\",\"xsched.org/pod-label.app\":\"web\"", "",
                                        "claim.priority-class=high\nclaim.pod-label.app=web\n"},
                        {"\"xsched.org/priority-class\":\"high\",\"xsched.org/pod-label.app\":\"web\"",
                                        "RaisingAnnotations=priority-class",
                                        "label.priority-class=high\nclaim.pod-label.app=web\n"},
                        {"\"xsched.org/pod-label.example.com/a\":\"\",\"xsched.org/pod-label.\":\"x\"",
                                        "RaisingAnnotations=pod-label", "label.pod-label.example.com/a=\n"},
                        {"\"xsched.org/pod-label.app\":\"forged\","
                         "\"io.kubernetes.cri-o.Labels\":\"{\\\"app\\\":\\\"web\\\",\\\"n\\\":1}\"",
                                        "RaisingAnnotations=pod-label", "label.pod-label.app=web\n", true},
                        {"\"io.kubernetes.cri-o.Labels\":\"[\",\"xsched.org/pod-label.app\":\"forged\"", "", "", true},
                        {"\"xsched.org/pod-label.app\":\"a\\nb\",\"xsched.org/priority-class\":\"\"", "", ""},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                char text[512], rules[128];
                OciState s;

                (void) snprintf(text, sizeof(text), "{\"annotations\":{%s}}", cases[i].annotations);
                (void) snprintf(rules, sizeof(rules), "[Containers]\n%s\n", cases[i].rules);
                parse(text, &s);
                check_rules_of(&s, rules, 0, cases[i].of_crio ? LABELS_OF_CRIO : LABELS, cases[i].expected);
                oci_state_done(&s);
        }
}

static void test_annotations(void **state) {
        const char *text = "{\"annotations\":{\"xsched.org/priority\":\"9\",\"xsched.org/class\":\"idle\","
                           "\"xsched.org/weight\":\"1\\n2\",\"xsched.org/max\":\"\",\"xsched.org/nothing\":\"1\","
                           "\"xsched.org/min\":\"1234567890123456789012345678901234567890123456789012345678901234\","
                           "\"io.kubernetes.cri.sandbox-name\":\"web\",\"io.kubernetes.pod.namespace\":\"prod\"}}";
        const char *lowering = "lower.priority=9\nlower.class=idle\n";
        AnnotationRules rules;
        OciState s;

        parse(text, &s);
        assert_int_equal(annotation_rules_read("/nonexistent", count, NULL, &rules), 0);
        check_found(&s, &rules, SETTINGS, lowering);
        check_rules(&s, "", 0, lowering);
        check_rules(&s, "[Containers]\nRaisingAnnotations=class weight\n", 0, "lower.priority=9\nclass=idle\n");
        check_rules(&s, "[Containers]\nRaisingAnnotations=class\nRaisingAnnotations=\n", 0, lowering);
        /* A line with a mistake counts for nothing. */
        check_rules(&s, "[Containers]\nRaisingAnnotations=class, priority\n", 1, lowering);
        check_rules(&s, "[Containers]\nRaisingAnnotation=class\n", 1, lowering);
        check_rules(&s, "RaisingAnnotations=class\n", 1, lowering);
        check_found(&s, &rules, LABELS, "label.pod=web\nlabel.namespace=prod\n");
        oci_state_done(&s);
}

/* --- the file --- */

static void check_text(const char *theirs, const char *expected) {
        static const char *const ours[] = {"/a/one.so", "/a/two.so"};
        _cleanup_free_ char *text = NULL;

        assert_int_equal(preload_file_text(ours, ELEMENTSOF(ours), theirs, &text), 0);
        assert_string_equal(text, expected);
}

static void test_preload_text(void **state) {
        check_text("", "/a/one.so\n/a/two.so\n");
        check_text("/b/x.so", "/a/one.so\n/a/two.so\n/b/x.so");
        check_text("# hello\n/b/x.so\n", "/a/one.so\n/a/two.so\n# hello\n/b/x.so\n");
        check_text("/a/two.so /b/x.so\n", "/a/one.so\n/a/two.so /b/x.so\n");
        check_text("/a/one.so:/a/two.so\n", "/a/one.so:/a/two.so\n");
}

/* --- as a program --- */

/* Checks that the hook succeeds without output, whatever its input. */
static void check_hook(const char *stage, const char *input) {
        char said[256];
        int in[2], out[2], status;

        assert_int_equal(pipe2(in, O_CLOEXEC), 0);
        assert_int_equal(pipe2(out, O_CLOEXEC), 0);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                (void) dup2(in[0], STDIN_FILENO);
                (void) dup2(out[1], STDOUT_FILENO);
                (void) dup2(out[1], STDERR_FILENO);
                execl(hook, "hook", stage, "--class=batch", "--unknown", NULL);
                _exit(127);
        }
        close(in[0]);
        close(out[1]);
        assert_int_equal(write(in[1], input, strlen(input)), strlen(input));
        close(in[1]);
        assert_int_equal(read(out[0], said, sizeof(said)), 0);
        close(out[0]);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void test_hook(void **state) {
        static const char *const inputs[] = {"", "{", "[]", "{}", "{\"pid\":0}", "{\"pid\":1,\"id\":\"\"}",
                        "{\"pid\":2147483647,\"id\":\"x\"}", "{\"bundle\":\"/nonexistent\"}",
                        "{\"bundle\":7,\"pid\":\"x\"}"};

        for (size_t i = 0; i < ELEMENTSOF(inputs); i++) {
                check_hook("createRuntime", inputs[i]);
                check_hook("createContainer", inputs[i]);
                check_hook("poststop", inputs[i]);
        }
}

int main(int argc, char *argv[]) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_state),
                        cmocka_unit_test(test_no_state),
                        cmocka_unit_test(test_root),
                        cmocka_unit_test(test_cgroup),
                        cmocka_unit_test(test_engine),
                        cmocka_unit_test(test_labels),
                        cmocka_unit_test(test_annotations),
                        cmocka_unit_test(test_preload_text),
                        cmocka_unit_test(test_hook),
        };

        if (argc != 2)
                return 1;
        hook = argv[1];
        return cmocka_run_group_tests(tests, NULL, NULL);
}
