/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Which libxsched a layer finds where the first one of the search path is an older one
 */

#include <dlfcn.h>

#include "shim/late/late.h"
#include "tests/lib/unit.h"
#include "xsched/xsched.h"

static void test_the_one_beside_is_taken(void **state) {
        XschedQueueInfo info = {.size = sizeof(info), .device = "pci:0000:01:00.0", .backend = "opencl"};
        XschedQueue *q = NULL;

        void *old = dlopen("libxsched.so.0", RTLD_NOW | RTLD_LOCAL);
        assert_non_null(old);
        assert_null(dlsym(old, "xsched_queue_begin"));

        assert_true(late_load());
        assert_int_equal(xsched_queue_new(&info, &q), 0);
        assert_non_null(q);
        assert_int_equal(xsched_queue_begin(q), 0);
        xsched_queue_complete(q, 1, 0);
        assert_null(xsched_queue_unref(q));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_the_one_beside_is_taken),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
