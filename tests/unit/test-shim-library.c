/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * libxsched as a file: effects of loading it on a process that does not use it
 *
 * Takes the library's path.
 */

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>

#include "common/macro.h"
#include "include/xsched/xsched.h"
#include "tests/lib/deadline.h"
#include "tests/lib/unit.h"

static const char *library;

static bool is_loaded(const char *name) {
        return dlopen(name, RTLD_NOW | RTLD_NOLOAD) != NULL;
}

/* Counts the library's threads: a sanitizer may have its own. */
static int count_threads(void) {
        char path[300], name[32];
        int n = 0;
        DIR *d = opendir("/proc/self/task");

        for (const struct dirent *e; (e = readdir(d));) {
                (void) snprintf(path, sizeof(path), "/proc/self/task/%s/comm", e->d_name);
                FILE *f = fopen(path, "re");
                if (!f)
                        continue;
                n += fgets(name, sizeof(name), f) && startswith(name, "xsched\n");
                fclose(f);
        }
        closedir(d);
        return n;
}

static void test_exports(void **state) {
        static const char *const public[] = {
                        "xsched_queue_new",
                        "xsched_queue_ref",
                        "xsched_queue_unref",
                        "xsched_queue_begin",
                        "xsched_queue_begin_nowait",
                        "xsched_queue_begin_bounded",
                        "xsched_queue_join",
                        "xsched_queue_complete",
                        "xsched_queue_drained",
                        "xsched_queue_limit",
                        "xsched_queue_limit_for",
                        "xsched_queue_lead",
                        "xsched_queue_look",
                        "xsched_queue_look_in",
                        "xsched_queue_boost",
                        "xsched_get_counters",
                        "xsched_hint",
                        "xsched_preempt_init",
                        "xsched_preempt_free",
                        "xsched_preempt_suspend_queues",
                        "xsched_preempt_resume_queues",
                        "xsched_preempt_query_queues",
                        "xsched_preempt_strerror",
        };
        static const char *const private[] = {"gate_begin_slow", "page_open", "client_kick", "now_ns", "dbus_open"};
        void *l = dlopen(library, RTLD_NOW | RTLD_LOCAL);

        assert_non_null(l);
        for (size_t i = 0; i < ELEMENTSOF(public); i++) {
                assert_non_null(dlsym(l, public[i]));
                assert_non_null(dlvsym(l, public[i], "XSCHED_0"));
        }
        for (size_t i = 0; i < ELEMENTSOF(private); i++)
                assert_null(dlsym(l, private[i]));
        assert_false(is_loaded("libsystemd.so.0"));
        assert_int_equal(count_threads(), 0);
        assert_int_equal(dlclose(l), 0);
        assert_true(is_loaded(library)); /* a thread of the library may still run */
}

static void test_first_queue(void **state) {
        void *l = dlopen(library, RTLD_NOW | RTLD_LOCAL);
        int (*queue_new)(const XschedQueueInfo *, XschedQueue **) = dlsym(l, "xsched_queue_new");
        int (*queue_begin)(XschedQueue *) = dlsym(l, "xsched_queue_begin");
        XschedQueue *(*queue_unref)(XschedQueue *) = dlsym(l, "xsched_queue_unref");
        XschedQueueInfo info = {.size = sizeof(info), .device = "d", .backend = "b"};
        XschedQueue *q;

        assert_int_equal(queue_new(&info, &q), 0);
        assert_int_equal(queue_begin(q), XSCHED_UNTRACKED);
        assert_true(poll_until(count_threads() == 1));
        assert_false(is_loaded("libsystemd.so.0")); /* the library has its own D-Bus code */
        queue_unref(q);
        assert_int_equal(dlclose(l), 0);
        assert_int_equal(count_threads(), 1);
}

int main(int argc, char *argv[]) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_exports),
                        cmocka_unit_test(test_first_queue),
        };

        if (argc < 2)
                return 1;
        setenv("XSCHED_BUS_ADDRESS", "unix:path=/nonexistent", true);
        library = argv[1];
        return cmocka_run_group_tests(tests, NULL, NULL);
}
